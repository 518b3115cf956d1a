// The checks of a page that gets new data while somebody looks at it.
const asked = [];
let deliver;
const delivery = new Promise(done => deliver = done);
window.fetch = async target => {
  asked.push(target);
  if (asked.length > 1) return new Promise(() => {});  // nothing newer comes
  await delivery;
  const newest = JSON.parse(JSON.stringify({...data, state_text: 'newer'}));
  newest.newest.step = 12345;
  for (const chart of newest.charts) for (const line of chart.lines) line.points.push([12345, 3]);
  return {ok: true, status: 200, json: async () => newest, headers: {get: () => '7'}};
};
verdict(async () => {
  const svg = () => document.querySelector('.chart svg'), sheet = () => document.querySelector('.scroll').firstChild;
  const axis = () => [...svg().querySelectorAll('text')].map(node => node.textContent).join(' '), middle = svg().clientWidth / 2;
  pointer(svg(), 'pointerdown', middle, 60);
  pointer(svg(), 'pointermove', middle + 40, 60);
  pointer(svg(), 'pointerup', middle + 40, 60);
  button('show everything').click();
  button('zoom in').click();
  await frame();
  const zoomed = axis(), wide = sheet().offsetWidth, old = svg();
  deliver();
  await until(() => document.querySelector('header').textContent.includes('newer') && svg() && sheet().offsetWidth === wide);
  check(document.querySelector('.facts').textContent.includes('12,345'), 'the newest step is not shown');
  check(svg() !== old && axis() === zoomed, 'the curves are not zoomed as before: ' + axis());
  check(sheet().offsetWidth === wide, 'the timelines are ' + sheet().offsetWidth + ' pixels wide, and were ' + wide);
  await until(() => asked.length > 1);
  check(/after=7$/.test(asked[1]), 'it asks for ' + asked[1]);
});
