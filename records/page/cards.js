// The cards of a report that are no curves: figures, memory, experts, and how to run it again.
const pairs = rows => make('table', {class: 'pairs'}, ...rows.map(([name, value]) => make('tr', {}, make('td', {}, name), make('td', {}, value))));
const percent = share => (100 * share).toFixed(1) + ' %';
const size = bytes => bytes === null ? '\u2013' : bytes >= 2 ** 30 ? (bytes / 2 ** 30).toFixed(2) + ' GiB' : (bytes / 2 ** 20).toFixed(1) + ' MiB';
function bar(share, text) {
  const filled = make('i', {style: `width:${(100 * Math.min(1, Math.max(0, share))).toFixed(1)}%`});
  return make('div', {class: 'bar'}, make('div', {}, filled), make('span', {}, text));
}

function factCards(now) {
  const facts = [['step', now.step.toLocaleString('en') + (data.steps_total ? ' / ' + data.steps_total.toLocaleString('en') : '')],
    ['loss', now.loss === null ? null : short(now.loss, 5)], ['tokens/s', now.tokens_per_second === null ? null : short(now.tokens_per_second, 5)],
    ['TFLOP/s a device', now.tflops === null ? null : short(now.tflops)], ['MFU', now.mfu === null ? null : percent(now.mfu)],
    ['bubble', now.bubble === null ? null : percent(now.bubble)], ['elapsed', clock(now.elapsed)],
    ['to go', data.state === 'running' && data.seconds_left !== null ? clock(data.seconds_left) : null]];
  return make('div', {class: 'grid facts'}, ...facts.filter(fact => fact[1] !== null).map(([name, value]) =>
    make('div', {class: 'card'}, make('div', {class: 'soft'}, name), make('div', {class: 'big'}, value))));
}

// A row a layer, a column an expert: the colour tells the load, full at three times the mean and more.
function loadsCard(loads) {
  const least_cell = 9, space = make('div', {}), scroll = make('div', {class: 'wide loads'}, space);
  const names = loads.layers.map(([layer]) => 'layer ' + layer), left = 10 + 6.5 * Math.max(...names.map(name => name.length));
  const experts = Math.max(...loads.layers.map(layer => layer[1].length)), row = loads.layers.length > 24 ? 12 : 18;
  onWidth(scroll, room => {
    const width = Math.max(room, left + experts * least_cell), cell = (width - left) / experts;
    const svg = make('svg', {width, height: loads.layers.length * row, role: 'img', 'aria-label': 'loads of experts'});
    loads.layers.forEach(([layer, shares], i) => {
      if (row > 12 || i % 2 === 0) svg.append(make('text', {x: 0, y: i * row + row - 3}, names[i]));
      shares.forEach((share, expert) => svg.append(make('rect', {x: left + expert * cell, y: i * row, width: Math.max(1, cell - 1), height: row - 1,
        fill: 'var(--line)', opacity: 0.06 + 0.94 * Math.min(1, share / 3), 'data-tip': names[i] + ', expert ' + expert + '\n' + short(share, 3) + ' times the mean'})));
    });
    space.replaceChildren(svg);
  });
  scroll.addEventListener('pointermove', event => event.target.dataset.tip ? show(event, event.target.dataset.tip) : hide());
  scroll.addEventListener('pointerdown', event => event.target.dataset.tip && show(event, event.target.dataset.tip));
  scroll.addEventListener('pointerleave', hide);
  const key = [0, 1, 2, 3].map(load => make('span', {}, make('i', {style: `background:var(--line);opacity:${0.06 + 0.94 * load / 3}`}), load === 3 ? '3 and more' : String(load)));
  return make('section', {class: 'card'}, make('div', {class: 'head'}, make('h2', {}, 'Loads of experts in step ' + loads.step),
    make('span', {class: 'legend'}, 'times the mean:', ...key)), scroll);
}

function timelinesCard(timelines) {
  return card('Steps, measured and simulated', new TimelineView(timelines, {wheel: false}).node);
}
function memoryCard(devices) {
  const most = Math.max(...devices.map(device => device[1] || 0)) || 1;
  return card('Memory', pairs(devices.map(([name, bytes]) => [name, bar((bytes || 0) / most, size(bytes))])));
}
function idleCard(now) {
  return card('Idle share of each stage in step ' + now.step,
    pairs(now.stage_bubble.map((share, i) => ['stage ' + i, bar(share || 0, share === null ? '\u2013' : percent(share))])));
}

// Everything that another person needs to run it again.
function rerunCard(rerun) {
  const copy = makeButton('copy', 'copy the command', () => navigator.clipboard?.writeText(rerun.command).then(() => copy.textContent = 'copied'));
  const part = (title, node) => [make('h3', {}, title), node], list = lines => make('ul', {class: 'notes'}, ...lines.map(line => make('li', {}, line)));
  return make('section', {class: 'card rerun'}, make('div', {class: 'head'}, make('h2', {}, 'To run it again'), navigator.clipboard ? copy : null),
    make('pre', {}, rerun.command), pairs(rerun.facts),
    ...(rerun.options.length ? part('Options other than their defaults', make('div', {class: 'columns'}, pairs(rerun.options))) : part('Options', make('div', {}, 'all have their defaults'))),
    ...(rerun.history.length ? part('History', list(rerun.history)) : []), ...(rerun.notes.length ? part('Notes and warnings', list(rerun.notes)) : []));
}
