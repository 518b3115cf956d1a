// Curves over steps. All charts of a page share the steps that they show, the pointer and the smoothing.
// A chart is {title, unit, lines}; a line is {run, points}; a point is [step, value] or, where neighbouring steps were
// joined, [step, last value, smallest, largest].
const chart_height = 180, chart_pad = {left: 52, right: 10, top: 8, bottom: 22};
const lowest = point => point.length > 2 ? point[2] : point[1], highest = point => point.length > 3 ? point[3] : point[1];
const clip = makeCounter('clip');
function makeCounter(name) { let count = 0; return () => name + ++count; }

// A moving average whose weights decay by `weight` a point, free of the bias of its beginning.
function smoothed(points, weight) {
  let sum = 0, weights = 0;
  return points.map(([step, value]) => {
    sum = weight * sum + (1 - weight) * value;
    weights = weight * weights + 1 - weight;
    return [step, sum / weights];
  });
}
// Returns the point nearest to a step.
function nearest(points, step) {
  let low = 0, high = points.length - 1;
  while (low < high) {
    const middle = (low + high) >> 1;
    points[middle][0] < step ? low = middle + 1 : high = middle;
  }
  return low > 0 && step - points[low - 1][0] < points[low][0] - step ? points[low - 1] : points[low];
}
// Returns the points that are to be seen between two steps, with one neighbour on each side.
function pointsIn(points, [from, to]) {
  const first = Math.max(0, points.findIndex(p => p[0] >= from) - 1), after = points.findIndex(p => p[0] > to);
  return points.some(p => p[0] >= from) ? points.slice(first, after < 0 ? points.length : after + 1) : [];
}

class Curves {
  // `marks`: [kind, step, text] of events, "takeover" or "resume", that all charts show. `evaluations`: steps.
  constructor(charts, {runs, marks, evaluations}) {
    Object.assign(this, {runs, marks, evaluations});
    const steps = charts.flatMap(chart => chart.lines.flatMap(line => [line.points[0][0], line.points[line.points.length - 1][0]]));
    this.whole = [Math.min(...steps), Math.max(Math.max(...steps), Math.min(...steps) + 1)];
    this.zoomed = remembered('zoom', null);
    this.weight = remembered('smooth', 0);
    this.logs = new Set(remembered('logs', []));
    this.charts = charts.map(chart => new CurveChart(this, chart));
    this.node = make('div', {}, this.makeTools(), make('div', {class: 'grid charts'}, ...this.charts.map(chart => chart.node)));
    this.zoomTo(this.zoomed);
  }
  range() { return this.zoomed || this.whole; }

  makeTools() {
    const slider = make('input', {type: 'range', min: 0, max: 0.99, step: 0.01, value: this.weight, 'aria-label': 'smoothing'});
    const shown = make('span', {class: 'value'}, String(this.weight));
    slider.addEventListener('input', () => {
      this.weight = +slider.value;
      shown.textContent = slider.value;
      remember('smooth', this.weight);
      this.draw();
    });
    this.reset = makeButton('all steps', 'show all steps', () => this.zoomTo(null));
    const legend = make('span', {class: 'legend'}, ...(this.runs.length > 1 ? this.runs : []).map((run, i) =>
      make('span', {}, make('i', {style: `background:var(--run${i})`}), run)));
    return make('div', {class: 'tools curve-tools'}, make('label', {}, 'smoothing', slider, shown), this.reset, legend,
      make('span', {class: 'soft'}, 'Drag over a curve: zoom. Double click: all steps.'));
  }
  zoomTo(range) {
    this.zoomed = range;
    remember('zoom', range);
    this.reset.style.visibility = range ? 'visible' : 'hidden';
    this.draw();
  }
  draw() { for (const chart of this.charts) chart.draw(); }
  // Shows the values at a step in every chart; null: the newest.
  pointAt(step) { for (const chart of this.charts) chart.pointAt(step); }
}

class CurveChart {
  constructor(curves, chart) {
    this.curves = curves;
    this.chart = chart;
    this.evaluated = chart.title === 'loss' && curves.evaluations.length > 0 ? curves.evaluations : null;
    this.value = make('span', {class: 'soft value'});
    this.log = makeButton('log', 'logarithmic axis of ' + chart.title, () => this.toggleLog());
    this.space = make('div', {});
    this.node = make('div', {class: 'card chart'}, make('div', {class: 'head'}, make('h2', {}, chart.title), this.value, this.log), this.space);
    onWidth(this.space, width => { this.width = width; this.draw(); });
  }
  toggleLog() {
    const logs = this.curves.logs, title = this.chart.title;
    logs.has(title) ? logs.delete(title) : logs.add(title);
    remember('logs', [...logs]);
    this.draw();
  }
  isLog() { return this.curves.logs.has(this.chart.title); }
  color(line) { return this.curves.runs.length > 1 ? `var(--run${line.run})` : 'var(--line)'; }

  // Chooses the values that the axis covers; a logarithmic axis leaves out those that are not above 0.
  fit() {
    const points = [...this.chart.lines.map(line => line.points), ...(this.evaluated ? [this.evaluated] : [])]
      .flatMap(list => pointsIn(list, this.curves.range())), fits = v => !this.isLog() || v > 0;
    const values = points.flatMap(p => [lowest(p), highest(p)]).filter(fits);
    let low = values.reduce((a, b) => Math.min(a, b), Infinity), high = values.reduce((a, b) => Math.max(a, b), -Infinity);
    if (values.length === 0) [low, high] = [this.isLog() ? 0.1 : 0, 1];
    if (!this.isLog() && low >= 0 && low < 0.6 * high) low = 0;
    if (high - low <= 1e-9 * Math.abs(high)) {
      const by = Math.abs(high) * 0.1 || 1;
      [low, high] = this.isLog() ? [low / 2, high * 2] : [low - by, high + by];
    }
    const more = this.isLog() ? 0 : leastSpan(Math.max(Math.abs(low), Math.abs(high))) - (high - low);
    this.low = more > 0 ? low - more / 2 : low;
    this.high = more > 0 ? high + more / 2 : high;
  }
  x(step) {
    const [from, to] = this.curves.range();
    return chart_pad.left + (step - from) / (to - from) * (this.width - chart_pad.left - chart_pad.right);
  }
  stepAt(x) {
    const [from, to] = this.curves.range();
    return from + (x - chart_pad.left) / (this.width - chart_pad.left - chart_pad.right) * (to - from);
  }
  y(v) {
    const of = this.isLog() ? Math.log : x => x, inside = this.isLog() ? Math.max(v, this.low) : v;
    return chart_pad.top + (of(this.high) - of(inside)) / (of(this.high) - of(this.low)) * (chart_height - chart_pad.top - chart_pad.bottom);
  }

  draw() {
    if (!this.width) return;
    this.fit();
    this.log.setAttribute('aria-pressed', this.isLog());
    const id = clip(), {left, right, top, bottom} = chart_pad;
    this.svg = make('svg', {viewBox: `0 0 ${this.width} ${chart_height}`, height: chart_height, role: 'img', 'aria-label': this.chart.title});
    this.drawAxes();
    const inside = make('g', {style: `clip-path:inset(0 ${right - 2}px ${bottom - 3}px ${left - 2}px)`, id});
    inside.append(make('rect', {x: 0, y: 0, width: this.width, height: chart_height, fill: 'transparent'}));
    for (const line of this.chart.lines) this.drawLine(inside, line);
    if (this.evaluated) this.drawEvaluations(inside);
    this.drawMarks(inside);
    this.cross = make('line', {y1: top, y2: chart_height - bottom, stroke: 'var(--soft)', visibility: 'hidden'});
    this.chosen = make('rect', {y: top, height: chart_height - top - bottom, fill: 'var(--line)', opacity: 0.18, visibility: 'hidden'});
    this.svg.append(inside, this.cross, this.chosen);
    listenToChart(this);
    this.space.replaceChildren(this.svg);
    this.pointAt(null);
  }
  drawAxes() {
    const {left, right} = chart_pad;
    const {step, at} = ticks(this.low, this.high, 4), largest = Math.max(Math.abs(this.low), Math.abs(this.high));
    const digits = this.isLog() ? 3 : Math.min(6, Math.max(3, Math.ceil(Math.log10(largest / step)) + 1));
    for (const v of this.isLog() ? logTicks(this.low, this.high) : at)
      this.svg.append(make('line', {x1: left, x2: this.width - right, y1: this.y(v), y2: this.y(v), stroke: 'var(--grid)'}),
        make('text', {x: left - 6, y: this.y(v) + 4, 'text-anchor': 'end'}, short(v, Math.abs(v) < 1e-3 ? 3 : digits)));
    for (const step of ticks(...this.curves.range(), this.width / 80).at.filter(Number.isInteger)) {
      const x = this.x(step), anchor = x > this.width - 26 ? 'end' : x < left + 8 ? 'start' : 'middle';
      this.svg.append(make('text', {x, y: chart_height - 5, 'text-anchor': anchor}, step.toLocaleString('en')));
    }
  }
  path(points, value) {
    return points.map((p, i) => (i ? 'L' : 'M') + this.x(p[0]).toFixed(1) + ' ' + this.y(value(p)).toFixed(1)).join('');
  }
  drawLine(inside, line) {
    const usable = this.isLog() ? line.points.filter(p => lowest(p) > 0) : line.points;
    const points = pointsIn(usable, this.curves.range()), color = this.color(line), weight = this.curves.weight;
    if (points.length === 0) return;
    if (points.some(p => p.length > 2))
      inside.append(make('path', {fill: color, opacity: 0.2, d: this.path(points, highest) + this.path([...points].reverse(), lowest).replace('M', 'L') + 'Z'}));
    const stroke = {fill: 'none', stroke: color, 'stroke-width': 1.6, 'stroke-linejoin': 'round'};
    inside.append(make('path', {...stroke, opacity: weight > 0 ? 0.3 : 1, d: this.path(points, p => p[1])}));
    if (weight > 0) inside.append(make('path', {...stroke, 'stroke-width': 2, d: this.path(pointsIn(smoothed(usable, weight), this.curves.range()), p => p[1])}));
    if (points.length < 3) for (const p of points) inside.append(make('circle', {cx: this.x(p[0]), cy: this.y(p[1]), r: 2.5, fill: color}));
  }
  drawEvaluations(inside) {
    const points = pointsIn(this.evaluated, this.curves.range());
    inside.append(make('path', {fill: 'none', stroke: 'var(--marked)', 'stroke-width': 1.2, 'stroke-dasharray': '4 3', d: this.path(points, p => p[1])}));
    if (points.length <= 100)
      for (const p of points) inside.append(make('circle', {cx: this.x(p[0]), cy: this.y(p[1]), r: 3, fill: 'var(--marked)', class: 'evaluation-mark'}));
  }
  drawMarks(inside) {
    for (const [kind, step] of this.curves.marks)
      inside.append(make('line', {x1: this.x(step), x2: this.x(step), y1: chart_pad.top, y2: chart_height - chart_pad.bottom, class: kind + '-mark',
        stroke: kind === 'takeover' ? 'var(--bad)' : 'var(--soft)', 'stroke-width': 1.3, 'stroke-dasharray': '3 3'}));
  }

  pointAt(step) {
    if (!this.svg) return;
    const newest = Math.max(...this.chart.lines.map(line => line.points[line.points.length - 1][0]));
    const at = this.chart.lines.map(line => nearest(line.points, step ?? newest));
    this.value.textContent = (step === null ? '' : 'step ' + at[0][0].toLocaleString('en') + ': ') + at.map(p => short(p[1], 5)).join(' | ') + (this.chart.unit && ' ' + this.chart.unit);
    this.cross.setAttribute('visibility', step === null ? 'hidden' : 'visible');
    if (step === null) return;
    this.cross.setAttribute('x1', this.x(at[0][0]));
    this.cross.setAttribute('x2', this.x(at[0][0]));
  }
  // Returns the lines of the tip at a step.
  tipText(step) {
    const unit = this.chart.unit && ' ' + this.chart.unit, several = this.curves.runs.length > 1;
    const rows = this.chart.lines.map(line => {
      const p = nearest(line.points, step), smooth = this.curves.weight > 0 ? nearest(smoothed(line.points, this.curves.weight), step) : null;
      return (several ? this.curves.runs[line.run] + ', ' : '') + 'step ' + p[0].toLocaleString('en') + ': ' + short(p[1], 6) + unit +
        (p.length > 2 ? '\n  from ' + short(p[2], 6) + ' to ' + short(p[3], 6) + ' around it' : '') + (smooth ? '\n  smoothed ' + short(smooth[1], 6) : '');
    });
    if (this.evaluated) {
      const p = nearest(this.evaluated, step);
      rows.push('evaluation after step ' + p[0].toLocaleString('en') + ': ' + short(p[1], 6));
    }
    for (const [kind, at, text] of this.curves.marks) if (Math.abs(this.x(at) - this.x(step)) < 6) rows.push(text || kind + ' after step ' + at);
    return rows.join('\n');
  }
}

// Returns how many values of this size an axis covers at least, so that its labels, which have few digits, differ.
const leastSpan = size => size < 1e-3 || size >= 1e7 ? 0.02 * size : Math.max(2e-4 * size, size >= 1000 ? 4 : 0);

// Returns 1, 2 and 5 times the powers of ten, or the powers alone where these are many.
function logTicks(low, high) {
  const at = [], first = Math.floor(Math.log10(low)), last = Math.ceil(Math.log10(high)), every = Math.ceil((last - first) / 6);
  for (let power = first; power <= last; ++power)
    for (const digit of last - first > 3 ? [1] : [1, 2, 5]) if ((power - first) % every === 0) at.push(digit * 10 ** power);
  const seen = at.filter(v => v >= low * 0.999 && v <= high * 1.001);
  return seen.length > 1 ? seen : ticks(low, high, 3).at.filter(v => v > 0);
}

function listenToChart(chart) {
  const {svg, curves} = chart, [x_min, x_max] = [chart_pad.left, chart.width - chart_pad.right];
  const xOf = event => Math.min(x_max, Math.max(x_min, event.clientX - svg.getBoundingClientRect().left));
  let begun = null;
  svg.addEventListener('pointerdown', event => {
    if (event.button !== 0) return;
    begun = xOf(event);
    try { svg.setPointerCapture(event.pointerId); } catch { /* the pointer is gone already */ }
  });
  svg.addEventListener('pointermove', event => {
    const x = xOf(event), step = chart.stepAt(x);
    curves.pointAt(step);
    show(event, chart.tipText(step));
    if (begun === null) return;
    chart.chosen.setAttribute('visibility', 'visible');
    chart.chosen.setAttribute('x', Math.min(x, begun));
    chart.chosen.setAttribute('width', Math.abs(x - begun));
  });
  svg.addEventListener('pointerup', event => {
    const from = begun, x = xOf(event);
    begun = null;
    chart.chosen.setAttribute('visibility', 'hidden');
    if (from !== null && Math.abs(x - from) > 5) curves.zoomTo([chart.stepAt(Math.min(x, from)), chart.stepAt(Math.max(x, from))]);
  });
  svg.addEventListener('pointercancel', () => { begun = null; chart.chosen.setAttribute('visibility', 'hidden'); });
  svg.addEventListener('pointerleave', () => { hide(); curves.pointAt(null); });
  svg.addEventListener('dblclick', () => curves.zoomTo(null));
}
