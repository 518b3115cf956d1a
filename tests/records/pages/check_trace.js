// The checks of the page of a trace with several steps and an evaluation.
verdict(async () => {
  await checkTimeline();
  const canvas = document.querySelector('canvas'), sheet = document.querySelector('.scroll').firstChild, picked = document.querySelector('input[type=number]');
  check(pixelsOf(canvas, 'evaluation') > 0, 'the evaluation is not drawn');
  const whole = sheet.offsetWidth;
  button('next step').click();
  check(picked.value === '3' && sheet.offsetWidth > whole, 'the next step is ' + picked.value);
  button('next step').click();
  check(picked.value === '4', 'the step after it is ' + picked.value);
  picked.value = 3;
  picked.dispatchEvent(new Event('change'));
  await frame();
  pointer(canvas, 'pointermove', canvas.clientWidth / 2, 5);
  check(/^step 3: /.test(tip.textContent), 'the tip over a step is "' + tip.textContent + '"');
  check(document.body.textContent.includes('1 evaluation of 0.5 s not counted as idle') || document.body.textContent.includes('1 evaluation of 500 ms not counted as idle'),
    'the words do not tell of the evaluation');
});
