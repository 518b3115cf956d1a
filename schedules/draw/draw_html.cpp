#include <algorithm>
#include <ostream>

#include "schedules/draw/draw.hpp"
#include "schedules/draw/draw_detail.hpp"

namespace pipetrain::schedules {

namespace {

constexpr const char* page_begin = R"html(<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>pipeline timeline</title><style>
body{font:13px sans-serif;margin:12px;color:#222}h1{font-size:16px;margin:0 0 6px}
#view{width:100%;border:1px solid #ccc;cursor:grab;display:block}#view:active{cursor:grabbing}
#tip{position:fixed;display:none;background:#222;color:#fff;padding:5px 8px;border-radius:4px;pointer-events:none;white-space:pre}
#legend i{display:inline-block;width:12px;height:12px;margin:0 4px 0 12px;vertical-align:-2px}
table{border-collapse:collapse;margin-top:10px}td,th{padding:2px 10px;text-align:right;border-bottom:1px solid #ddd}
</style></head><body><h1 id="title"></h1><p id="words"></p><canvas id="view"></canvas>
<p id="legend">Wheel: zoom. Drag: move. Double click: all. Hover: the action. </p><div id="tip"></div><table id="stages"></table>
<script>
const data = )html";

constexpr const char* page_end = R"html(;
const view = document.getElementById('view'), tip = document.getElementById('tip'), pen = view.getContext('2d');
const left = data.left, top_ = 6, row = Math.max(3, Math.min(26, Math.floor(900 / data.stages.length)));
let from = 0, to = data.makespan, grabbed = null;
const fixed = x => +x.toPrecision(6);
document.getElementById('title').textContent = data.title;
document.getElementById('words').textContent = 'makespan ' + fixed(data.makespan) + ' ' + data.unit + ', bubble ' + (100 * data.bubble).toFixed(2) +
  ' %, longest wait inside a stage ' + fixed(data.span_bubble) + ' ' + data.unit;
const piece = s => s[2] < 0 ? '' : data.slices > 1 && s[0] != 'X' ? Math.floor(s[2] / data.slices) + '.' + s[2] % data.slices : '' + s[2];
const name = s => s[1] < 0 || data.chunks < 2 || 'NOX'.includes(s[0]) ? s[0] + piece(s) : s[1] + s[0] + piece(s);
const x = t => left + (t - from) / (to - from) * (view.width / devicePixelRatio - left - 4);
const time = px => from + (px - left) / (view.width / devicePixelRatio - left - 4) * (to - from);
// Returns the first span of a stage that ends after t.
function first(spans, t) { let a = 0, b = spans.length; while (a < b) { const m = (a + b) >> 1; spans[m][4] <= t ? a = m + 1 : b = m; } return a; }
function draw() {
  const height = top_ * 2 + 20 + row * data.stages.length;
  view.style.height = height + 'px';
  view.width = view.clientWidth * devicePixelRatio; view.height = height * devicePixelRatio;
  pen.setTransform(devicePixelRatio, 0, 0, devicePixelRatio, 0, 0);
  pen.font = '11px sans-serif'; pen.textBaseline = 'middle';
  data.stages.forEach((spans, stage) => {
    const y = top_ + stage * row;
    pen.fillStyle = '#eee'; pen.fillRect(left, y, view.clientWidth - left - 4, row - 1);
    let covered = -1;
    for (let i = first(spans, from); i < spans.length && spans[i][3] < to; ++i) {
      const s = spans[i], a = Math.max(left, x(s[3])), b = Math.min(view.clientWidth - 4, x(s[4]));
      if (b <= covered + 0.3) continue;
      covered = b;
      pen.fillStyle = data.colors[s[0] + s[1]]; pen.fillRect(a, y, Math.max(0.5, b - a - (b - a > 3 ? 1 : 0)), row - 1);
      if (b - a > 8 && row > 12) {  // the whole name, or what there is room for
        const text = [name(s), piece(s)].find(t => t && pen.measureText(t).width < b - a - 2);
        pen.fillStyle = '#111'; pen.textAlign = 'center'; pen.fillText(text || '', (a + b) / 2, y + row / 2);
      }
    }
    pen.fillStyle = '#222'; pen.textAlign = 'left';
    if (row > 9 || stage % 8 == 0) { pen.clearRect(0, y, left - 2, row); pen.fillText(data.names[stage], 4, y + row / 2); }
  });
  pen.fillStyle = '#222'; pen.textAlign = 'center';
  const bottom = top_ + row * data.stages.length;
  const {step, at} = ticks(), digits = Math.min(15, Math.max(0, -Math.floor(Math.log10(step) + 1e-9)));
  at.forEach((t, i) => {
    const text = t.toFixed(digits) + (i + 1 < at.length ? '' : ' ' + data.unit);
    pen.fillRect(x(t), bottom, 1, 4); pen.fillText(text, Math.min(x(t), view.clientWidth - pen.measureText(text).width / 2 - 4), bottom + 12);
  });
}
// Ticks at round times, about 120 pixels apart.
function ticks() {
  const rough = (to - from) * 120 / Math.max(120, view.clientWidth - left), power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map(n => n * power).find(n => n >= rough) || 10 * power, at = [];
  for (let i = Math.ceil(from / step - 1e-9); i * step <= to * (1 + 1e-12); ++i) at.push(i * step);
  return {step, at};
}
view.onwheel = e => {
  e.preventDefault();
  const pixels = e.deltaY * (e.deltaMode ? 30 : 1), least = data.makespan * 1e-7;  // some browsers count lines
  const t = time(e.offsetX), by = Math.max(least / (to - from), Math.exp(pixels * 0.002));
  from = Math.max(0, t - (t - from) * by); to = Math.min(data.makespan, t + (to - t) * by); draw();
};
view.onmousedown = e => grabbed = {at: e.offsetX, from, to};
window.onmouseup = () => grabbed = null;
view.ondblclick = () => { from = 0; to = data.makespan; draw(); };
view.onmousemove = e => {
  if (grabbed) {
    let by = (grabbed.at - e.offsetX) / (view.clientWidth - left - 4) * (grabbed.to - grabbed.from);
    by = Math.max(-grabbed.from, Math.min(data.makespan - grabbed.to, by));
    from = grabbed.from + by; to = grabbed.to + by; draw();
  }
  const stage = Math.floor((e.offsetY - top_) / row), t = time(e.offsetX), spans = data.stages[stage];
  tip.style.display = 'none';
  if (!spans || e.offsetX < left) return;
  const i = first(spans, t), s = spans[i];
  let text = data.names[stage] + '\n';
  if (s && s[3] <= t) text += name(s) + ': ' + fixed(s[3]) + ' to ' + fixed(s[4]) + (s[5] ? '\nwaited for ' + data.reasons[s[5]] : '');
  else if (s) text += 'idle, then ' + name(s) + (s[5] ? '\nwaits for ' + data.reasons[s[5]] : '');
  else text += 'done';
  tip.textContent = text; tip.style.display = 'block';
  tip.style.left = Math.max(0, Math.min(e.clientX + 14, innerWidth - tip.offsetWidth - 4)) + 'px';
  tip.style.top = Math.max(0, Math.min(e.clientY + 14, innerHeight - tip.offsetHeight - 4)) + 'px';
};
view.onmouseleave = () => tip.style.display = 'none';
const words = {F: 'forward', B: 'backward', I: 'input gradient', W: 'weight gradient', R: 'reduce over replicas', S: 'sum replicated',
  T: 'sum tied', N: 'norm', O: 'optimizer'}, legend = document.getElementById('legend');
const kinds = new Set(data.stages.flatMap(spans => spans.map(s => s[0])));
Object.keys(words).filter(k => kinds.has(k)).forEach(k => {
  const box = document.createElement('i'); box.style.background = data.colors[k + 0];
  legend.append(box, k + ' ' + words[k]);
});
if (data.chunks > 1) legend.append('; lighter: later chunks');
const table = document.getElementById('stages');
const line = (cells, tag) => { const r = table.insertRow(); cells.forEach(c => { const d = document.createElement(tag); d.textContent = c; r.appendChild(d); }); };
line(['', 'busy', 'idle', 'warm-up', 'steady', 'cool-down', 'communication', 'peak activations'], 'th');
data.summary.forEach((s, i) => line([data.names[i], ...s.map(fixed)], 'td'));
window.onresize = draw; draw();
</script></body></html>
)html";

}  // namespace

void write_html(std::ostream& out, const Timeline& timeline, const Summary& summary) {
  const TimeRange range = range_of(timeline);
  const int chunks = timeline.placement.chunks();
  out.precision(9);
  out << page_begin << "{\"title\":\"" << escaped(timeline.title) << "\",\"unit\":\"" << escaped(timeline.unit)
      << "\",\"chunks\":" << chunks << ",\"slices\":" << timeline.slices << ",\"makespan\":" << summary.makespan
      << ",\"bubble\":" << summary.bubble_fraction << ",\"span_bubble\":" << summary.span_bubble
      << ",\"left\":" << 16 + 6 * std::max(8, longest_row_name(timeline)) << ",\"names\":[";
  for (std::size_t row = 0; row < timeline.stages.size(); ++row)
    out << (row == 0 ? "\"" : ",\"") << escaped(row_name(timeline, row)) << '"';
  out << "],\"reasons\":[";
  for (const auto reason :
       {WaitedFor::nothing, WaitedFor::activation, WaitedFor::gradient, WaitedFor::slot, WaitedFor::partner, WaitedFor::memory})
    out << (reason == WaitedFor::nothing ? "\"" : ",\"") << to_string(reason) << '"';
  out << "],\"colors\":{";
  const char* separator = "";
  for (int kind = 0; kind < action_kinds; ++kind)
    for (int chunk = 0; chunk < chunks; ++chunk, separator = ",")
      out << separator << '"' << letter(static_cast<ActionKind>(kind)) << chunk << "\":\""
          << color_of(static_cast<ActionKind>(kind), chunk, chunks) << '"';
  out << "},\"summary\":[";
  separator = "";
  for (const StageSummary& stage : summary.stages) {
    out << separator << '[' << stage.busy << ',' << stage.idle << ',' << stage.idle_warm_up << ',' << stage.idle_steady << ','
        << stage.idle_cool_down << ',' << stage.idle_communication << ',' << stage.peak_activations << ']';
    separator = ",";
  }
  out << "],\"stages\":[";
  separator = "";
  for (const auto& spans : timeline.stages) {
    out << separator << "\n[";
    separator = "";
    for (const Span& span : spans) {
      out << separator << "[\"" << letter(span.action.kind) << "\"," << span.action.chunk << ',' << span.action.microbatch
          << ',' << span.start - range.begin << ',' << span.end - range.begin << ',' << static_cast<int>(span.waited_for)
          << ']';
      separator = ",";
    }
    out << ']';
    separator = ",";
  }
  out << "]}" << page_end;
}

}  // namespace pipetrain::schedules
