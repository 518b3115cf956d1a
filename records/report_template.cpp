#include "records/report_template.hpp"

namespace pipetrain {

const char* const report_begin = R"html(<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width,initial-scale=1"><title>pipetrain report</title><style>
:root{color-scheme:light dark;--page:#f6f7f9;--card:#fff;--edge:#e3e6ea;--text:#1c2128;--soft:#68727e;--grid:#eceef1;--line:#2f6fd0;--band:#2f6fd038;
--F:#5b95d8;--B:#e2925a;--I:#e2925a;--W:#6bb380;--end:#a39bc0;--idle:#eef0f2;--good:#23864a;--bad:#c5372c}
@media(prefers-color-scheme:dark){:root{--page:#12161b;--card:#1b2027;--edge:#2c333c;--text:#e4e8ec;--soft:#95a0ac;--grid:#262d35;--line:#6ba4f2;--band:#6ba4f240;
--F:#4f88c8;--B:#cf8350;--I:#cf8350;--W:#5aa06e;--end:#8b83a8;--idle:#252b33;--good:#5cc183;--bad:#f07a70}}
*{box-sizing:border-box}body{margin:0;background:var(--page);color:var(--text);font:14px/1.45 system-ui,"Segoe UI",Roboto,"DejaVu Sans",sans-serif}
main{max-width:1240px;margin:0 auto;padding:20px}h1{font-size:20px;margin:0 10px 0 0;overflow-wrap:anywhere}h2{font-size:14px;margin:0 0 6px}
header{display:flex;flex-wrap:wrap;align-items:center;gap:6px;margin-bottom:14px}.pill{border:1px solid;border-radius:99px;padding:1px 10px;font-size:12px}
.running{color:var(--line)}.finished{color:var(--good)}.stopped,.failed{color:var(--bad)}.soft{color:var(--soft)}
.row{display:grid;gap:12px;margin-bottom:12px}.facts,.lower{align-items:start}.wide{columns:2 320px;column-gap:24px}.facts{grid-template-columns:repeat(auto-fit,minmax(146px,1fr))}.charts{grid-template-columns:repeat(auto-fit,minmax(340px,1fr))}
.card{background:var(--card);border:1px solid var(--edge);border-radius:8px;padding:12px 14px;min-width:0;position:relative}
.big{font-size:20px;font-variant-numeric:tabular-nums}.head{display:flex;justify-content:space-between;gap:8px}.head span{font-variant-numeric:tabular-nums}
svg{display:block;width:100%;overflow:visible}svg text{fill:var(--soft);font-size:11px;font-family:inherit}
table{border-collapse:collapse;width:100%}td{padding:3px 8px 3px 0;vertical-align:top;overflow-wrap:anywhere}td:first-child{color:var(--soft);white-space:nowrap;width:1%;padding-right:16px}
.bar{height:12px;border-radius:3px;background:var(--idle);min-width:60px}.bar i{display:block;height:100%;border-radius:3px;background:var(--line)}
.legend i{display:inline-block;width:11px;height:11px;border-radius:2px;margin:0 5px 0 14px;vertical-align:-1px}
#tip{position:fixed;display:none;background:var(--text);color:var(--page);padding:4px 8px;border-radius:5px;font-size:12px;pointer-events:none;white-space:pre;z-index:2}
</style></head><body><main id="main"></main><div id="tip"></div><script>
'use strict';
const data = )html";

const char* const report_end = R"html(;
const main = document.getElementById('main'), tip = document.getElementById('tip');
// An element with attributes and children: nodes or text. Text never becomes markup.
function make(tag, attributes, ...children) {
  const drawing = ['svg', 'g', 'rect', 'path', 'line', 'text'].includes(tag);
  const node = drawing ? document.createElementNS('http://www.w3.org/2000/svg', tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) node.setAttribute(name, value);
  node.append(...children.filter(child => child !== null));
  return node;
}
const short = (x, digits = 4) => {
  if (x === null || x === undefined) return '\u2013';
  const size = Math.abs(x);
  if (size >= 1e5 || (size < 1e-3 && size > 0)) return x.toExponential(2);
  return size >= 1000 ? Math.round(x).toLocaleString('en') : String(+x.toPrecision(digits));
};
const time = s => { s = Math.round(s); const two = n => String(n).padStart(2, '0');
  return s >= 3600 ? Math.floor(s / 3600) + ':' + two(Math.floor(s / 60) % 60) + ':' + two(s % 60) : Math.floor(s / 60) + ':' + two(s % 60); };
const seconds = s => s >= 1 ? short(s) + ' s' : s >= 1e-3 ? short(s * 1e3) + ' ms' : short(s * 1e6) + ' \u00b5s';
function show(event, text) {
  tip.textContent = text; tip.style.display = 'block';
  tip.style.left = Math.max(0, Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 6)) + 'px';
  tip.style.top = Math.max(0, Math.min(event.clientY + 16, innerHeight - tip.offsetHeight - 6)) + 'px';
}
const hide = () => tip.style.display = 'none';
function ticks(low, high, count) {
  const rough = (high - low) / count || 1, power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map(n => n * power).find(n => n >= rough * 0.999), at = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-6; ++i) at.push(+(i * step).toPrecision(12));
  return at;
}

// Returns a line through the last value of each bucket over a band from its smallest to its largest.
function drawChart(chart) {
  const points = chart.points, width = 400, height = 170, left = 48, right = 8, top = 6, bottom = 20;
  const low_of = p => p.length > 2 ? p[2] : p[1], high_of = p => p.length > 3 ? p[3] : p[1];
  let low = Math.min(...points.map(low_of)), high = Math.max(...points.map(high_of));
  if (low >= 0 && low < 0.6 * high) low = 0;
  if (high - low < 1e-9 * Math.abs(high) || high === low) { const by = Math.abs(high) * 0.1 || 1; low -= by; high += by; }
  const begin = points[0][0], end = Math.max(points[points.length - 1][0], begin + 1);
  const x = s => left + (s - begin) / (end - begin) * (width - left - right);
  const y = v => top + (high - v) / (high - low) * (height - top - bottom);
  const svg = make('svg', {viewBox: `0 0 ${width} ${height}`, role: 'img', 'aria-label': chart.title});
  for (const v of ticks(low, high, 4)) svg.append(make('line', {x1: left, x2: width - right, y1: y(v), y2: y(v), stroke: 'var(--grid)'}),
    make('text', {x: left - 6, y: y(v) + 4, 'text-anchor': 'end'}, short(v, 3)));
  for (const s of ticks(begin, end, 6).filter(Number.isInteger))
    svg.append(make('text', {x: x(s), y: height - 4, 'text-anchor': s === end ? 'end' : 'middle'}, s.toLocaleString('en')));
  const path = (list, value) => list.map((p, i) => (i ? 'L' : 'M') + x(p[0]).toFixed(1) + ' ' + y(value(p)).toFixed(1)).join('');
  if (points.some(p => p.length > 2)) svg.append(make('path', {fill: 'var(--band)',
    d: path(points, high_of) + path([...points].reverse(), low_of).replace('M', 'L') + 'Z'}));
  svg.append(make('path', {fill: 'none', stroke: 'var(--line)', 'stroke-width': 1.6, 'stroke-linejoin': 'round', d: path(points, p => p[1])}));
  if (points.length < 3) for (const p of points) svg.append(make('rect', {x: x(p[0]) - 2.5, y: y(p[1]) - 2.5, width: 5, height: 5, fill: 'var(--line)'}));
  const mark = make('line', {y1: top, y2: height - bottom, stroke: 'var(--soft)', visibility: 'hidden'});
  svg.append(mark);
  svg.addEventListener('mousemove', event => {
    const box = svg.getBoundingClientRect(), at = begin + ((event.clientX - box.left) / box.width * width - left) / (width - left - right) * (end - begin);
    const p = points.reduce((a, b) => Math.abs(b[0] - at) < Math.abs(a[0] - at) ? b : a);
    mark.setAttribute('x1', x(p[0])); mark.setAttribute('x2', x(p[0])); mark.setAttribute('visibility', 'visible');
    show(event, 'step ' + p[0].toLocaleString('en') + ': ' + short(p[1], 6) + ' ' + chart.unit + (p.length > 2 ? '\nfrom ' + short(p[2], 6) + ' to ' + short(p[3], 6) + ' around it' : ''));
  });
  svg.addEventListener('mouseleave', () => { hide(); mark.setAttribute('visibility', 'hidden'); });
  return make('div', {class: 'card'}, make('div', {class: 'head'}, make('h2', {}, chart.title),
    make('span', {class: 'soft'}, short(points[points.length - 1][1], 5) + ' ' + chart.unit)), svg);
}

const words = {F: 'forward', B: 'backward', I: 'input gradient', W: 'weight gradient', R: 'reduce over replicas', S: 'sum replicated', T: 'sum tied', N: 'norm', O: 'optimizer'};
const color = kind => 'FBIW'.includes(kind) ? `var(--${kind})` : 'var(--end)';
// All timelines have one scale, so that a measured step lies over the simulated one as a ruler would show it.
function drawTimeline(timeline, longest) {
  const width = 1180, left = 96, right = 6, row = timeline.stages.length > 24 ? 12 : 20, height = timeline.stages.length * row + 18;
  const x = t => left + t / longest * (width - left - right);
  const svg = make('svg', {viewBox: `0 0 ${width} ${height}`, role: 'img', 'aria-label': timeline.title});
  timeline.stages.forEach((spans, i) => {
    const y = i * row;
    svg.append(make('text', {x: 0, y: y + row / 2 + 4}, timeline.names[i]), make('rect', {x: left, y, width: Math.max(0, x(timeline.length) - left), height: row - 2, fill: 'var(--idle)'}));
    for (const [kind, chunk, microbatch, start, end, merged] of spans) {
      const wide = x(end) - x(start), name = microbatch < 0 ? kind : (timeline.chunks > 1 ? chunk : '') + kind + microbatch;
      const box = make('rect', {x: x(start), y, width: Math.max(0.3, wide - (wide > 4 ? 0.8 : 0)), height: row - 2, fill: color(kind), opacity: timeline.chunks > 1 ? 1 - 0.4 * chunk / (timeline.chunks - 1) : 1});
      box.addEventListener('mousemove', event => show(event, timeline.names[i] + (merged > 1 ? '\n' + merged + ' actions from ' + name : '\n' + name + ' ' + words[kind]) + '\n' + seconds(start) + ' to ' + seconds(end) + ' (' + seconds(end - start) + ')'));
      box.addEventListener('mouseleave', hide);
      svg.append(box);
      if (wide > 7 * String(microbatch).length + 3 && row > 14 && merged === 1 && microbatch >= 0)
        svg.append(make('text', {x: x(start) + wide / 2, y: y + row / 2 + 3, 'text-anchor': 'middle', style: 'fill:#10151b;pointer-events:none'}, microbatch));
    }
  });
  for (const t of ticks(0, longest, 8)) svg.append(make('text', {x: x(t), y: height - 3, 'text-anchor': t === 0 ? 'start' : x(t) > width - 40 ? 'end' : 'middle'}, t === 0 ? '0' : seconds(t)));
  return make('div', {style: 'margin-top:10px'}, make('div', {class: 'head'}, make('span', {}, timeline.title), make('span', {class: 'soft'}, seconds(timeline.length))), svg,
    timeline.left_out ? make('div', {class: 'soft'}, timeline.left_out + ' more devices are not drawn') : null);
}

// A row a layer, a column an expert: the colour tells the load, full at three times the mean and more.
function drawLoads(loads) {
  const width = 1180, left = 72, experts = Math.max(...loads.layers.map(layer => layer[1].length)), wide = (width - left) / experts;
  const row = loads.layers.length > 24 ? 9 : 16, svg = make('svg', {viewBox: `0 0 ${width} ${loads.layers.length * row}`, role: 'img', 'aria-label': 'loads of experts'});
  loads.layers.forEach(([layer, shares], i) => {
    if (row > 9 || i % 4 === 0) svg.append(make('text', {x: 0, y: i * row + row - 4}, 'layer ' + layer));
    shares.forEach((share, expert) => {
      const box = make('rect', {x: left + expert * wide, y: i * row, width: Math.max(0.3, wide - (wide > 4 ? 1 : 0)), height: row - 1, fill: 'var(--line)', opacity: 0.06 + 0.94 * Math.min(1, share / 3)});
      box.addEventListener('mousemove', event => show(event, 'layer ' + layer + ', expert ' + expert + '\n' + short(share, 3) + ' times the mean'));
      box.addEventListener('mouseleave', hide);
      svg.append(box);
    });
  });
  return card('Loads of experts in step ' + loads.step, svg);
}

const table = rows => make('table', {}, ...rows.map(([name, value]) => make('tr', {}, make('td', {}, name), make('td', {}, value))));
const bar = (share, text) => make('div', {style: 'display:flex;gap:10px;align-items:center'}, make('div', {class: 'bar', style: 'flex:1'}, make('i', {style: `width:${(100 * Math.min(1, Math.max(0, share))).toFixed(1)}%`})),
  make('span', {style: 'width:84px;text-align:right;font-variant-numeric:tabular-nums'}, text));
const gib = bytes => bytes === null ? '\u2013' : bytes >= 2 ** 30 ? (bytes / 2 ** 30).toFixed(2) + ' GiB' : (bytes / 2 ** 20).toFixed(1) + ' MiB';
function card(title, ...children) { return make('div', {class: 'card'}, make('h2', {}, title), ...children); }

document.title = data.title + ' \u2013 pipetrain';
const pill = make('span', {class: 'pill ' + data.state}, data.state), state_text = make('span', {class: 'soft'}, data.state_text);
main.append(make('header', {}, make('h1', {}, data.title), pill, state_text));
const now = data.newest;
// A run that was killed cannot say so: by the clock of whoever looks, its page has become old.
function tellAge() {
  const age = Date.now() / 1000 - data.written;
  if (data.state !== 'running' || age < Math.max(60, now ? 5 * now.seconds : 0)) return;
  pill.className = 'pill stopped'; pill.textContent = 'no news for ' + Math.floor(age / 60) + ' min';
  state_text.textContent = 'the run was still going on when this page was written';
}
tellAge();
if (now) {
  const facts = [['step', now.step.toLocaleString('en') + (data.steps_total ? ' / ' + data.steps_total.toLocaleString('en') : '')], ['loss', short(now.loss, 5)], ['tokens/s', short(now.tokens_per_second, 5)],
    ['TFLOP/s a device', short(now.tflops)], ['MFU', now.mfu === null ? null : (100 * now.mfu).toFixed(1) + ' %'], ['bubble', now.bubble === null ? null : (100 * now.bubble).toFixed(1) + ' %'],
    ['elapsed', time(now.elapsed)], ['to go', data.state === 'running' && data.seconds_left !== null ? time(data.seconds_left) : null]];
  main.append(make('div', {class: 'row facts'}, ...facts.filter(fact => fact[1] !== null).map(([name, value]) => make('div', {class: 'card'}, make('div', {class: 'soft'}, name), make('div', {class: 'big'}, value)))));
} else main.append(card('No step is done yet'));
main.append(make('div', {class: 'row charts'}, ...data.charts.map(drawChart)));
if (data.expert_loads && data.expert_loads.layers.length) main.append(make('div', {class: 'row'}, drawLoads(data.expert_loads)));
if (data.timelines.length) {
  const longest = Math.max(...data.timelines.map(t => t.length)) || 1, kinds = new Set(data.timelines.flatMap(t => t.stages.flatMap(spans => spans.map(s => s[0]))));
  const legend = make('div', {class: 'legend soft'});
  Object.keys(words).filter(kind => kinds.has(kind)).forEach(kind => legend.append(make('i', {style: 'background:' + color(kind)}), kind + ' ' + words[kind]));
  main.append(make('div', {class: 'row'}, card('Steps, measured and simulated', legend, ...data.timelines.map(t => drawTimeline(t, longest)))));
}
const lower = make('div', {class: 'row charts lower'});
if (data.devices.length) {
  const most = Math.max(...data.devices.map(d => d[1] || 0)) || 1;
  lower.append(card('Memory', table(data.devices.map(([name, bytes]) => [name, bar((bytes || 0) / most, gib(bytes))]))));
}
if (now && now.stage_bubble.length > 1) lower.append(card('Idle share of each stage in step ' + now.step, table(now.stage_bubble.map((share, i) => ['stage ' + i, bar(share || 0, share === null ? '\u2013' : (100 * share).toFixed(1) + ' %')]))));
lower.append(card('Host', table(data.host)));
main.append(lower, make('div', {class: 'row'}, card('Settings', make('div', {class: 'wide'}, table(data.settings)))));
if (data.state === 'running') { setInterval(tellAge, 5000); setTimeout(() => location.reload(), 10000); }
</script></body></html>
)html";

}  // namespace pipetrain
