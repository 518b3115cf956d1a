// The functions that every page uses: elements, numbers for people, and the tip at the pointer.
const main = document.getElementById('main'), tip = document.getElementById('tip');

// Makes an element with attributes and children: nodes or text. Text never becomes markup.
function make(tag, attributes, ...children) {
  const drawing = ['svg', 'g', 'rect', 'path', 'line', 'text', 'circle'].includes(tag);
  const node = drawing ? document.createElementNS('http://www.w3.org/2000/svg', tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) node.setAttribute(name, value);
  node.append(...children.filter(child => child !== null && child !== undefined));
  return node;
}
function makeButton(text, label, action) {
  const node = make('button', {type: 'button', title: label, 'aria-label': label}, text);
  node.addEventListener('click', action);
  return node;
}
const card = (title, ...children) => make('section', {class: 'card'}, make('h2', {}, title), ...children);

// Writes a number with that many digits; numbers that are very large or small get an exponent.
function short(x, digits = 4) {
  if (x === null || x === undefined) return '\u2013';
  const size = Math.abs(x);
  if (size >= 1e7 || (size < 1e-3 && size > 0)) return x.toExponential(Math.min(3, digits - 1));
  return size >= 1000 ? Math.round(x).toLocaleString('en') : String(+x.toPrecision(digits));
}
const time_units = [[1, 's'], [1e-3, 'ms'], [1e-6, '\u00b5s']];
const unitFor = size => time_units.find(([scale]) => size >= scale) || time_units[2];
function seconds(s) {
  if (s === 0) return '0 s';
  const [scale, unit] = unitFor(Math.abs(s));
  return short(s / scale) + ' ' + unit;
}
// Writes a duration as a clock does: 1:02:03.
function clock(s) {
  s = Math.round(s);
  const two = n => String(n).padStart(2, '0'), minutes = Math.floor(s / 60);
  return minutes >= 60 ? Math.floor(minutes / 60) + ':' + two(minutes % 60) + ':' + two(s % 60) : minutes + ':' + two(s % 60);
}
// Writes a time of a timeline in its unit, which is "s" or one without a name.
const duration = (t, unit) => unit === 's' ? seconds(t) : short(t) + ' ' + unit;

// Returns round numbers from low to high, about `count` of them, and the step between them.
function ticks(low, high, count) {
  const rough = (high - low) / Math.max(1, count) || 1, power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map(n => n * power).find(n => n >= rough * 0.999) || 10 * power, at = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-6 && at.length < 200; ++i) at.push(+(i * step).toPrecision(12));
  return {step, at};
}

function show(event, text) {
  tip.textContent = text;
  tip.style.display = 'block';
  tip.style.left = Math.max(0, Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 6)) + 'px';
  const below = event.clientY + 16, above = event.clientY - tip.offsetHeight - 10;
  tip.style.top = Math.max(0, below + tip.offsetHeight < innerHeight ? below : above) + 'px';
}
const hide = () => tip.style.display = 'none';

// What the reader has chosen is kept while the page reloads or redraws itself.
function remembered(key, otherwise) {
  try { return JSON.parse(sessionStorage.getItem(location.pathname + key)) ?? otherwise; } catch { return otherwise; }
}
function remember(key, value) {
  try { sessionStorage.setItem(location.pathname + key, JSON.stringify(value)); } catch { /* a browser without storage */ }
}

// Ends what the elements of the page have begun outside of themselves, when these are drawn anew.
let lifetime = new AbortController();
// Calls `draw` with the width of a node soon, and when it changes; not within the layout, which drawing changes.
function onWidth(node, draw) {
  let last = 0;
  const look = () => {
    const width = Math.floor(node.clientWidth);
    if (width > 0 && width !== last) draw(last = width);
  };
  setTimeout(look);
  const observer = new ResizeObserver(() => setTimeout(look));
  observer.observe(node);
  lifetime.signal.addEventListener('abort', () => observer.disconnect());
}
// Calls `draw` when the reader's system changes between light and dark.
const onTheme = draw => matchMedia('(prefers-color-scheme: dark)').addEventListener('change', draw, {signal: lifetime.signal});
