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
  scroller.addEventListener("scroll", () => {
    const near = scroller.scrollHeight - scroller.scrollTop - scroller.clientHeight < NEAR;
    if (near || scroller.scrollTop < last) stuck = near; // what grows below does not scroll up
    last = scroller.scrollTop;
  });
  const resized = new ResizeObserver(() => stuck && toEnd());
  resized.observe(scroller);
  resized.observe(list);
  return { atEnd: () => stuck, toEnd };
}
