// Keeping a pane of messages at its end while they grow or the pane shrinks, until its reader scrolls up.

const NEAR = 60; // pixels from the end that still count as being there

/** Watch `scroller`, which holds `list`. `atEnd()` tells whether it is kept there, `toEnd()` goes there. */
export function stickToEnd(scroller, list) {
  let stuck = true;
  let last = 0;
  const toEnd = () => {
    stuck = true;
    scroller.scrollTop = scroller.scrollHeight;
    last = scroller.scrollTop;
  };
  // also before what has changed is taken in: the event of a scroll may come after it
  const look = () => {
    const near = scroller.scrollHeight - scroller.scrollTop - scroller.clientHeight < NEAR;
    if (near || scroller.scrollTop < last) stuck = near; // what grows below does not scroll up
    last = scroller.scrollTop;
    return stuck;
  };
  scroller.addEventListener("scroll", look);
  const resized = new ResizeObserver(() => look() && toEnd());
  resized.observe(scroller);
  resized.observe(list);
  return { atEnd: look, toEnd };
}
