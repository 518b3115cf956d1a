// Draws one timeline of a TimelineView: rows of actions, the boundaries of steps, evaluations and the axis.
function drawPane(view, pane, colors) {
  const {timeline, canvas, row, top} = pane, rows = timeline.stages.length, height = top + rows * row + foot;
  const ratio = devicePixelRatio, pen = canvas.getContext('2d');
  canvas.style.height = height + 'px';
  canvas.width = view.width * ratio;
  canvas.height = height * ratio;
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  pen.font = '12px sans-serif';
  pen.textBaseline = 'middle';
  const end = Math.min(view.width - 8, view.x(timeline.length));
  for (let stage = 0; stage < rows; ++stage) {
    const y = top + stage * row;
    pen.fillStyle = colors.idle;
    pen.fillRect(view.left, y, Math.max(0, end - view.left), row - (row > 4 ? 1 : 0));
    drawSpans(view, pane, pen, colors, stage, y);
  }
  drawParts(view, pane, pen, colors, height - foot);
  pen.clearRect(0, 0, view.left, height);
  drawNames(view, pane, pen, colors);
  drawAxis(view, pen, colors, timeline, height - foot);
}

function drawSpans(view, {timeline, row}, pen, colors, stage, y) {
  const spans = timeline.stages[stage], until = view.timeAt(view.width);
  let covered = -Infinity;
  pen.textAlign = 'center';
  for (let i = firstAfter(spans, view.timeAt(view.left)); i < spans.length && spans[i][3] < until; ++i) {
    const span = spans[i], a = Math.max(view.left, view.x(span[3])), b = Math.min(view.width - 8, view.x(span[4])), wide = b - a;
    if (b <= covered + 0.3) continue;  // too narrow to be seen beside the one before
    covered = b;
    pen.fillStyle = own_colors.includes(span[0]) ? colors[span[0]] : colors.end;
    pen.globalAlpha = timeline.chunks > 1 && span[1] > 0 ? 1 - 0.5 * span[1] / (timeline.chunks - 1) : 1;
    pen.fillRect(a, y, Math.max(0.5, wide - (wide > 3 ? 1 : 0)), row - (row > 4 ? 1 : 0));
    pen.globalAlpha = 1;
    if (row < 13 || wide < 9 || span[6] > 1) continue;
    const text = [actionName(timeline, span), pieceName(timeline, span)].find(name => name && pen.measureText(name).width < wide - 3);
    pen.fillStyle = timeline.chunks > 1 && span[1] > 0 ? colors.text : '#10151b';
    if (text) pen.fillText(text, a + wide / 2, y + row / 2);
  }
}

// Steps get a line at their beginning and a number, evaluations a band over all rows.
function drawParts(view, {timeline, top}, pen, colors, bottom) {
  let free = -Infinity;
  const label = (x, text) => {
    if (x < view.left - 1 || x < free || x + pen.measureText(text).width > view.width) return;
    pen.fillText(text, x + 3, top / 2);
    free = x + pen.measureText(text).width + 14;
  };
  pen.textAlign = 'left';
  for (const [, start, end] of timeline.evaluations) {
    const a = Math.max(view.left, view.x(start)), b = Math.min(view.width - 8, Math.max(view.x(end), view.x(start) + 2));
    if (b < view.left || a > view.width) continue;
    pen.fillStyle = colors.evaluation;
    pen.fillRect(a, top, b - a, bottom - top);
    if (b - a > pen.measureText('evaluation').width + 8) {
      pen.fillStyle = colors.text;
      pen.fillText('evaluation', a + 4, top / 2);
    }
  }
  for (const [number, start] of timeline.steps) {
    const x = view.x(start);
    if (x < view.left - 1 || x > view.width) continue;
    pen.fillStyle = colors.soft;
    if (timeline.steps.length * 3 < view.width * view.zoom) pen.fillRect(x - 0.5, 2, 1, bottom - 2);
    pen.fillStyle = colors.text;
    label(x, 'step ' + number);
  }
}

function drawNames(view, {timeline, row, top}, pen, colors) {
  const every = Math.ceil(13 / row);
  pen.fillStyle = colors.text;
  pen.textAlign = 'left';
  for (let stage = 0; stage < timeline.stages.length; stage += every)
    pen.fillText(view.short ? shortRow(timeline.names[stage]) : timeline.names[stage], 0, top + stage * row + row / 2);
}

// Writes round times, about 110 pixels apart.
function drawAxis(view, pen, colors, {unit}, bottom) {
  const from = Math.max(0, view.timeAt(view.left)), to = Math.min(view.longest, view.timeAt(view.width - 8));
  const {step, at} = ticks(from, to, (view.width - view.left) / 110);
  const [scale, name] = unit === 's' ? unitFor(to) : [1, unit], digits = Math.min(12, Math.max(0, -Math.floor(Math.log10(step / scale) + 1e-9)));
  pen.fillStyle = colors.soft;
  pen.textAlign = 'left';
  let free = 0;
  for (const t of at) {
    const text = t === 0 ? '0' : (t / scale).toFixed(digits) + ' ' + name, wide = pen.measureText(text).width;
    const x = Math.max(view.left, Math.min(view.x(t) - wide / 2, view.width - wide - 2));
    if (x < free) continue;
    pen.fillRect(view.x(t) - 0.5, bottom, 1, 4);
    pen.fillText(text, x, bottom + 12);
    free = x + wide + 12;
  }
}
