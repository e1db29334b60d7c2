"""Expressions that tools/tests/page/run evaluates in the page: about its history, and about its width."""

CELLS = "document.querySelectorAll('#history rect.q1, #history rect.q2, #history rect.q3').length"
LONG = "[...document.querySelectorAll('#long-rows td:not(.none)')].map(one => one.textContent).join(' | ')"
LAST = "import('/history.js').then(it => it.history.last)"
# Finds gaps between samples; the server takes one every second or two.
GAPS = """import('/history.js').then(({ history }) => {
  const times = history.all.points.map(point => point.time);
  return JSON.stringify(times.filter((time, i) => i > 0 && time - times[i - 1] > 6));
})"""

HAS_WIDTH = """['history', 'graph'].every(id => {
  const place = document.getElementById(id), picture = place.querySelector('svg');
  return picture && (id === 'graph' || Math.abs(picture.getBoundingClientRect().width - place.clientWidth) <= 1);
})"""

# Finds texts that are smaller than 10 pixels on the screen.
SMALL_TEXTS = """(() => {
  const found = new Set(), walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const text = walker.currentNode, one = text.parentElement;
    if (!text.textContent.trim() || one.closest('title, script, noscript')) continue;
    const picture = one.closest('svg');
    const box = picture?.viewBox.baseVal;
    const scale = box && box.width > 0 ? picture.getBoundingClientRect().width / box.width : 1;
    const size = parseFloat(getComputedStyle(one).fontSize) * scale;
    if (picture?.getBoundingClientRect().width !== 0 && size < 10) found.add(`${text.textContent}: ${size}`);
  }
  return JSON.stringify([...found].slice(0, 3));
})()"""

# Finds holders, locks and waiters in the tables that are visible only after scrolling to the side.
OUTSIDE = """(() => {
  for (const one of document.querySelectorAll('details')) one.open = true;
  const found = [];
  const see = (one, what) => {
    const box = one.getBoundingClientRect();
    if (box.width === 0 || box.left < 0 || box.right > innerWidth) found.push(`${what}: ${one.textContent}`);
  };
  for (const id of ['held-rows', 'wait-rows', 'long-rows'])
    for (const row of [...document.querySelectorAll(`#${id} tr`)].slice(0, 20))
      for (const cell of [...row.cells].slice(0, 3)) see(cell, id);
  return JSON.stringify(found.slice(0, 3));
})()"""

# Gives the page's module replies like those of the server, and returns claims with their outcomes.
SAMPLES = """(async () => {
  const it = await import('/history.js?separate');
  const outcome = {};
  const claim = (text, found, wanted) => {
    const [one, other] = [JSON.stringify(found), JSON.stringify(wanted)];
    outcome[text] = one === other || `${one} instead of ${other}`;
  };
  const reply = (chunks, started = 1, uptime = 100) => ({ time: 5000 + uptime, uptime, started, left_out: 0,
    bounds: [0.001, 1, null], chunks });
  const lock = { dictionary: 'a', key: 'k', holder: { pid: 1, program: 'x' } };
  it.take(reply([
    [[1, 10, [], [{ name: 'a' }, 500, 0, 0, 1, 0, 4, null], [{ name: 'b' }, 0, 0, 0, 0, 0, null, null]],
     [2, 11, [[10.5, 4, 2, lock]], [0, 600, 6, 2, 1, 2, 4, 10.5, [0, 5, 2, 1]]], [3, 12, 0]],
    [[4, 13, [[10.5, 4, 2, lock]], [{ name: 'b' }, 100, 0, 0, 0, 0, null, null]], [5, 14, []]]]));
  const a = it.history.dictionaries.get('name a'), b = it.history.dictionaries.get('name b');
  claim('a point is valid until the next', it.columns(a.points, 10, 13, 3).map(one => [one.used, one.waiters, one.hits]),
    [[0.5, 0, 0], [0.6, 2, 6], [0.6, 2, 0]]);
  claim('holds and waits grow', it.columns(a.points, 11, 13, 2).map(one => [one.hold, one.wait]), [[8, 1.5], [9, 2.5]]);
  claim('waits are counted by their duration', it.columns(a.points, 10, 14, 1)[0].waits, [5, 0, 1]);
  claim('a dictionary that a chunk does not have was removed', it.columns(a.points, 13, 15, 2).map(one => one.known),
    [false, false]);
  claim('all dictionaries are added up', it.columns(it.history.all.points, 11, 12, 1).map(one => [one.held, one.waiters]),
    [[1, 2]]);
  claim('a long wait ends', it.history.waits.map(one => [one.begin, one.until, one.longest, one.waiters]),
    [[10.5, 13, 2.5, 2]]);
  it.take(reply([[[4, 13, [[10.5, 4, 2, lock]], [{ name: 'b' }, 100, 0, 0, 0, 0, null, null]], [5, 14, []], [6, 15], [7, 16, 0],
    [8, 17, 0, [{ name: 'a' }, 1, 0, 0, 0, 0, null, null]]]]));
  claim('samples that are known are not added again', it.history.all.points.map(point => point.time),
    [10, 11, 12, 13, 14, 15, 16, 17]);
  claim('nothing is known while the server could not read', it.columns(b.points, 14, 17, 3).map(one => one.known),
    [true, false, true]);
  claim('a dictionary that was created again continues', it.columns(a.points, 16, 18, 2).map(one => one.used),
    [null, 0.001]);
  claim('a step of the clock shifts all times', (it.take(reply([[]], 1, 100)), it.history.offset), 5000);
  claim('a different server makes the page request everything again', it.take(reply([[[3, 5, []]]], 2)), false);
  claim('then it starts again', (it.take(reply([[[1, 4, []], [2, 5, 0]]], 2)), it.history.all.points.length), 2);
  claim('an hour is kept', (it.take(reply([[[3, 5000, []], [4, 5001, 0]]], 2)), it.history.all.points.length), 3);
  return JSON.stringify(outcome);
})()"""
