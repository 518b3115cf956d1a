// The checks of a timeline with its buttons.
async function checkTimeline() {
  const scroll = document.querySelector('.scroll'), sheet = scroll.firstChild, canvas = scroll.querySelector('canvas');
  await frame();
  const names = [...document.querySelectorAll('.timelines .legend span')].map(node => node.textContent.trim()[0]);
  for (const kind of 'FBIWNO') if (names.includes(kind)) check(pixelsOf(canvas, kind) > 0, 'no action has the colour of ' + kind);
  button('show everything').click();
  const before = sheet.offsetWidth;
  check(before <= scroll.clientWidth + 1, 'everything is ' + before + ' pixels wide');
  button('zoom in').click();
  check(Math.abs(sheet.offsetWidth - 2 * before) < 3, 'zooming in makes it ' + sheet.offsetWidth + ' pixels wide');
  scroll.scrollLeft = 1e6;
  await frame();
  check(scroll.scrollLeft > before / 2, 'it scrolls to ' + scroll.scrollLeft);
  scroll.dispatchEvent(new MouseEvent('dblclick', {bubbles: true}));
  check(sheet.offsetWidth === before, 'a double click makes it ' + sheet.offsetWidth + ' pixels wide');
  canvas.scrollIntoView();
  pointer(canvas, 'pointermove', canvas.clientWidth / 2, canvas.clientHeight / 2);
  check(tip.style.display === 'block' && /stage \d/.test(tip.textContent), 'the tip over an action is "' + tip.textContent + '"');
  pointer(scroll, 'pointerleave', 0, 0);
  check(tip.style.display === 'none', 'the tip stays');
}
