// The checks of the page of one simulated step.
verdict(async () => {
  await checkTimeline();
  check(!button('next step'), 'one step can be picked');
  check(/paler: later chunks/.test(document.querySelector('.legend').textContent), 'the legend does not tell chunks apart');
});
