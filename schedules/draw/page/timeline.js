// Timelines that share one scale, as canvases under one scroll bar: each draws only the part that is to be seen.
// A timeline is {title, names, stages, length, unit, chunks, slices, steps, evaluations}; a span of a stage is
// [kind, chunk, microbatch, start, end, reason, merged]; a step or an evaluation is [number, start, end].
const action_words = {F: 'forward', B: 'backward', I: 'input gradient', W: 'weight gradient', R: 'reduce over replicas',
  S: 'sum replicated', T: 'sum tied', N: 'norm', O: 'optimizer', X: 'custom action'};
const reasons = ['', 'activation', 'gradient', 'slot', 'partner', 'memory'];
const own_colors = 'FBIWNOX', band = 18, foot = 20, most_pixels = 8e6;

// Returns the index of the first span that ends after t.
function firstAfter(spans, t) {
  let low = 0, high = spans.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    spans[middle][4] <= t ? low = middle + 1 : high = middle;
  }
  return low;
}
function pieceName(timeline, [kind, , microbatch]) {
  if (microbatch < 0) return '';
  return timeline.slices > 1 && kind !== 'X' ? Math.floor(microbatch / timeline.slices) + '.' + microbatch % timeline.slices : String(microbatch);
}
function actionName(timeline, span) {
  const [kind, chunk] = span, plain = chunk < 0 || timeline.chunks < 2 || 'NOX'.includes(kind);
  return (plain ? '' : chunk) + kind + pieceName(timeline, span);
}
const shortRow = name => name.replace(/replica /g, 'r').replace(/stage /g, 's').replace(/rank /g, 'k').replace(/ /g, '');

function timelineLegend(timelines) {
  const kinds = new Set(timelines.flatMap(t => t.stages.flatMap(spans => spans.map(span => span[0]))));
  const legend = make('div', {class: 'legend'});
  const entry = (color, text) => legend.append(make('span', {}, make('i', {style: 'background:var(--' + color + ')'}), text));
  for (const kind of Object.keys(action_words).filter(kind => kinds.has(kind)))
    entry(own_colors.includes(kind) ? kind : 'end', kind + ' ' + action_words[kind]);
  entry('idle', 'idle');
  if (timelines.some(t => t.evaluations.length)) entry('evaluation', 'evaluation');
  if (timelines.some(t => t.chunks > 1)) legend.append(make('span', {}, 'paler: later chunks'));
  return legend;
}

class TimelineView {
  // `wheel`: the wheel alone zooms; else it does so with the Ctrl key.
  constructor(timelines, {wheel}) {
    this.timelines = timelines;
    this.longest = Math.max(...timelines.map(t => t.length)) || 1;
    this.zoom = 1;
    this.sheet = make('div', {});
    this.scroll = make('div', {class: 'scroll', tabindex: 0, role: 'region', 'aria-label': 'timelines'}, this.sheet);
    this.panes = timelines.map(timeline => this.makePane(timeline));
    this.tools = make('div', {class: 'tools'}, makeButton('\u2212', 'zoom out', () => this.zoomBy(1 / 2)),
      makeButton('+', 'zoom in', () => this.zoomBy(2)), makeButton('all', 'show everything', () => this.zoomTo(1, 0)));
    if (timelines[0].steps.length > 1) this.addStepPicker(timelines[0].steps);
    this.tools.append(make('span', {class: 'soft hint'}, (wheel ? 'Wheel' : 'Ctrl and wheel') + ': zoom. Drag: move. Double click: all.'));
    this.node = make('div', {class: 'timelines'}, this.tools, timelineLegend(timelines), this.scroll);
    this.listen(wheel);
    onWidth(this.scroll, width => this.resize(width));
    onTheme(() => this.draw());
  }

  makePane(timeline) {
    const rows = timeline.stages.length, canvas = make('canvas', {role: 'img', 'aria-label': timeline.title});
    const row = rows <= 24 ? 22 : rows <= 64 ? 14 : Math.max(3, Math.floor(900 / rows));
    const head = timeline.title === '' ? null : make('div', {class: 'head'}, make('span', {}, timeline.title),
      make('span', {class: 'soft'}, duration(timeline.length, timeline.unit)));
    const node = make('div', {class: 'pane'}, head, canvas,
      timeline.left_out ? make('div', {class: 'soft'}, timeline.left_out + ' more devices are not drawn') : null);
    this.sheet.append(node);
    return {timeline, canvas, node, row, top: timeline.steps.length || timeline.evaluations.length ? band : 0};
  }

  addStepPicker(steps) {
    const first = steps[0][0], last = steps[steps.length - 1][0];
    this.picked = make('input', {type: 'number', min: first, max: last, 'aria-label': 'step', placeholder: first + '\u2013' + last});
    this.picked.addEventListener('change', () => this.showStep(steps, +this.picked.value));
    const go = by => this.showStep(steps, this.picked.value === '' ? (by > 0 ? first : last) : +this.picked.value + by);
    this.tools.append(make('span', {class: 'soft'}, 'step'), makeButton('\u2039', 'previous step', () => go(-1)), this.picked,
      makeButton('\u203a', 'next step', () => go(1)));
  }
  showStep(steps, number) {
    const [step, start, end] = steps.reduce((a, b) => Math.abs(b[0] - number) < Math.abs(a[0] - number) ? b : a);
    const by = 0.02 * (end - start);
    this.picked.value = step;
    this.zoomTo(this.longest / (end - start + 2 * by), start - by);
  }

  resize(width) {
    const first = !this.width, middle = first ? 0 : this.timeAt(this.width / 2);
    this.width = width;
    const names = this.timelines.flatMap(t => t.names), pen = this.panes[0].canvas.getContext('2d');
    pen.font = '12px sans-serif';
    const widest = list => Math.max(...list.map(name => pen.measureText(name).width));
    this.short = widest(names) > width / 4;
    this.left = 10 + Math.ceil(widest(this.short ? names.map(shortRow) : names));
    const [zoom, from] = (first && remembered('timeline', null)) || [first && width < 560 ? this.readableZoom() : this.zoom, null];
    this.zoom = zoom;
    this.zoomTo(zoom, from ?? (first ? 0 : middle - this.shown() / 2));
  }
  // Returns the zoom at which most numbers of microbatches can be read.
  readableZoom() {
    const spans = this.timelines[0].stages[0].filter(span => span[2] >= 0);
    if (spans.length === 0) return 1;
    const lengths = spans.map(span => span[4] - span[3]).sort((a, b) => a - b), median = lengths[lengths.length >> 1];
    return Math.min(40, Math.max(1, 20 / (median * this.scale(1))));
  }
  scale(zoom = this.zoom) { return (this.width * zoom - this.left - 8) / this.longest; }
  shown() { return (this.width - this.left - 8) / this.scale(); }
  x(t) { return this.left + t * this.scale() - this.scroll.scrollLeft; }
  timeAt(x) { return (x - this.left + this.scroll.scrollLeft) / this.scale(); }
  zoomBy(factor, at = (this.left + this.width) / 2) {
    const t = this.timeAt(at), zoom = Math.max(1, this.zoom * factor);
    this.zoomTo(zoom, t - (at - this.left) / this.scale(Math.min(zoom, most_pixels / this.width)));
  }
  // Shows the times from `from` on.
  zoomTo(zoom, from) {
    this.zoom = Math.min(Math.max(1, zoom), most_pixels / this.width);
    this.sheet.style.width = this.width * this.zoom + 'px';
    for (const pane of this.panes) pane.node.style.width = this.width + 'px';
    this.scroll.scrollLeft = from * this.scale();
    this.keep();
    this.draw();
  }
  keep() { if (this.scroll.isConnected) remember('timeline', [this.zoom, this.timeAt(this.left)]); }

  listen(wheel) {
    let grabbed = null, waiting = false;
    this.scroll.addEventListener('scroll', () => {
      if (!waiting) requestAnimationFrame(() => { waiting = false; this.keep(); this.draw(); });
      waiting = true;
    });
    this.scroll.addEventListener('wheel', event => {
      if (!(event.ctrlKey || event.metaKey || (wheel && !event.shiftKey)) || Math.abs(event.deltaX) > Math.abs(event.deltaY)) return;
      event.preventDefault();
      this.zoomBy(Math.exp(-event.deltaY * (event.deltaMode ? 30 : 1) * 0.002), event.clientX - this.scroll.getBoundingClientRect().left);
    }, {passive: false});
    this.scroll.addEventListener('pointerdown', event => {
      if (event.pointerType === 'mouse') grabbed = {x: event.clientX, left: this.scroll.scrollLeft};
      this.point(event);
    });
    this.scroll.addEventListener('pointermove', event => {
      if (grabbed && event.buttons) this.scroll.scrollLeft = grabbed.left + grabbed.x - event.clientX;
      this.point(event);
    });
    addEventListener('pointerup', () => grabbed = null, {signal: lifetime.signal});
    this.scroll.addEventListener('pointerleave', hide);
    this.scroll.addEventListener('dblclick', () => this.zoomTo(1, 0));
    this.scroll.addEventListener('keydown', event => {
      if (event.key === '+' || event.key === '-') this.zoomBy(event.key === '+' ? 2 : 1 / 2);
      if (event.key === '0') this.zoomTo(1, 0);
    });
  }

  // Tells what is at the pointer.
  point(event) {
    const pane = this.panes.find(one => one.canvas === event.target);
    if (!pane) return hide();
    const box = pane.canvas.getBoundingClientRect(), x = event.clientX - box.left, y = event.clientY - box.top;
    const stage = Math.floor((y - pane.top) / pane.row), t = this.timeAt(x);
    if (x < this.left || t > pane.timeline.length) return hide();
    const text = y < pane.top ? this.partText(pane.timeline, t) : stage < pane.timeline.stages.length ? this.spanText(pane.timeline, stage, t) : '';
    text ? show(event, text) : hide();
  }
  partText({steps, evaluations, unit}, t) {
    const at = list => list.find(([, start, end]) => start <= t && t <= end), evaluation = at(evaluations), step = at(steps);
    const text = (name, [number, start, end]) => name + ' ' + number + ': ' + duration(end - start, unit);
    return evaluation ? text('evaluation after step', evaluation) : step ? text('step', step) : 'between two steps';
  }
  spanText(timeline, stage, t) {
    const spans = timeline.stages[stage], span = spans[firstAfter(spans, t)], name = timeline.names[stage], unit = timeline.unit;
    const evaluation = timeline.evaluations.find(([, start, end]) => start <= t && t <= end);
    if (evaluation && !(span && span[3] <= t)) return name + '\n' + this.partText(timeline, t);
    if (!span) return name + '\ndone';
    const [kind, , , start, end, reason, merged] = span, waited = reason ? ' for ' + reasons[reason] : '';
    if (start > t) return name + '\nidle, then ' + actionName(timeline, span) + (waited ? '\nwaits' + waited : '');
    const what = merged > 1 ? merged + ' actions from ' + actionName(timeline, span) : actionName(timeline, span) + ' ' + (action_words[kind] || '');
    return name + '\n' + what + '\n' + duration(start, unit) + ' to ' + duration(end, unit) + ' (' + duration(end - start, unit) + ')' +
      (waited ? '\nwaited' + waited : '');
  }

  draw() {
    if (!this.width) return;
    const style = getComputedStyle(document.documentElement), colors = {};
    for (const name of ['text', 'soft', 'grid', 'idle', 'card', 'evaluation', 'end', ...own_colors]) colors[name] = style.getPropertyValue('--' + name).trim();
    for (const pane of this.panes) drawPane(this, pane, colors);
  }
}
