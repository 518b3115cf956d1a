// The checks that hold for every page. A check adds a line to `complaints`; verdict() puts them all into the page.
const complaints = [];
const check = (holds, complaint) => holds || complaints.push(complaint);
const frame = () => new Promise(done => setTimeout(done, 50));
// Waits until something has been drawn.
async function until(isThere) {
  for (let i = 0; i < 60 && !isThere(); ++i) await frame();
}
const nameOf = node => node.tagName + '.' + (node.getAttribute('class') || '') + ' "' + node.textContent.trim().slice(0, 30) + '"';
const ownText = node => [...node.childNodes].some(child => child.nodeType === 3 && child.textContent.trim() !== '');
const isShown = node => node.getClientRects().length > 0 && getComputedStyle(node).visibility !== 'hidden';

function checkWindow() {
  check(innerWidth === expected.width, 'the window is ' + innerWidth + ' pixels wide');
  check(matchMedia('(prefers-color-scheme: dark)').matches === expected.dark, 'the mode is not the one that was asked for');
  const shade = luminance(getComputedStyle(document.body).backgroundColor);
  check(expected.dark ? shade < 0.1 : shade > 0.8, 'the background has the luminance ' + shade);
}
function checkOverflow() {
  check(document.documentElement.scrollWidth <= innerWidth, 'the page is ' + document.documentElement.scrollWidth + ' pixels wide');
  for (const node of main.querySelectorAll('*')) {
    if (!ownText(node) || !isShown(node) || node.closest('.scroll, .wide, option')) continue;
    const box = node.getBoundingClientRect();
    check(box.right <= innerWidth + 1 && box.left >= -1, nameOf(node) + ' goes from ' + box.left + ' to ' + box.right);
    check(node.scrollWidth <= node.clientWidth + 1 || node.clientWidth === 0, nameOf(node) + ' is cut off');
  }
}
function luminance(color) {
  const parts = color.match(/[\d.]+/g).slice(0, 3).map(part => {
    const share = part / 255;
    return share <= 0.03928 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2];
}
function backgroundOf(node) {
  for (; node; node = node.parentElement) {
    const color = getComputedStyle(node).backgroundColor;
    if (color !== 'transparent' && !color.endsWith(', 0)')) return color;
  }
  return 'rgb(255, 255, 255)';
}
// Text is at least 10 pixels high, and has the contrast that WCAG 2 asks of large text at least.
function checkText() {
  for (const node of main.querySelectorAll('*')) {
    if (!ownText(node) || !isShown(node)) continue;
    const style = getComputedStyle(node), scale = node.getScreenCTM ? node.getScreenCTM().a : 1, pixels = parseFloat(style.fontSize) * scale;
    check(pixels >= 10, nameOf(node) + ' has ' + pixels + ' pixels');
    const one = luminance(node.getScreenCTM ? style.fill : style.color), other = luminance(backgroundOf(node));
    const contrast = (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
    check(contrast >= 4, nameOf(node) + ' has the contrast ' + contrast.toFixed(2));
  }
}

// Moves the pointer to a place of a node, in pixels from its left upper corner.
function pointer(node, type, x, y) {
  const box = node.getBoundingClientRect();
  node.dispatchEvent(new PointerEvent(type, {bubbles: true, pointerId: 1, pointerType: 'mouse', button: 0, buttons: type === 'pointerup' ? 0 : 1,
    clientX: box.left + x, clientY: box.top + y}));
}
const button = label => [...document.querySelectorAll('button')].find(node => node.getAttribute('aria-label') === label);
// Returns the number of pixels of a canvas that have about this colour.
function pixelsOf(canvas, name) {
  const hex = getComputedStyle(document.documentElement).getPropertyValue('--' + name).trim(), wanted = [1, 3, 5].map(i => parseInt(hex.slice(i, i + 2), 16));
  const copy = Object.assign(document.createElement('canvas'), {width: canvas.width, height: canvas.height}), pen = copy.getContext('2d', {willReadFrequently: true});
  pen.drawImage(canvas, 0, 0);
  const {data: bytes} = pen.getImageData(0, 0, copy.width, copy.height);
  let count = 0;
  for (let i = 0; i < bytes.length; i += 4) if (wanted.every((part, j) => Math.abs(bytes[i + j] - part) < 6) && bytes[i + 3] > 250) ++count;
  return count;
}

function verdict(check_page) {
  const finish = () => top.document.body.append(Object.assign(top.document.createElement('pre'), {id: 'verdict', textContent: complaints.join('\n')}));
  addEventListener('load', async () => {
    try {
      await until(() => [...document.querySelectorAll('.pane')].every(pane => pane.clientHeight > 50) && [...document.querySelectorAll('.chart')].every(chart => chart.querySelector('svg')));
      checkWindow();
      checkOverflow();
      checkText();
      await check_page();
      await frame();
      checkOverflow();
    } catch (error) {
      complaints.push(String(error.stack));
    }
    finish();
  });
}
