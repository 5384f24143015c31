// Keeping a small layer at the field it belongs to.

const GAP = 4;
const EDGE = 8;

/** Put `layer` (position: fixed) below `anchor`, or above it where there is no room; `gone()` runs when the anchor is
 *  scrolled away. Returns what stops it. */
export function floating(layer, anchor, gone) {
  const put = () => {
    const box = anchor.getBoundingClientRect();
    if (!anchor.isConnected || box.bottom < 0 || box.top > window.innerHeight) return gone();
    const below = window.innerHeight - box.bottom - GAP - EDGE;
    const above = box.top - GAP - EDGE;
    const wanted = Math.min(layer.scrollHeight + 2, 320);
    const under = below >= wanted || below >= above;
    const width = Math.min(Math.max(box.width, 220), window.innerWidth - 2 * EDGE);
    Object.assign(layer.style, {
      width: `${width}px`, maxHeight: `${Math.max(80, Math.min(320, under ? below : above))}px`,
      left: `${Math.max(EDGE, Math.min(box.left, window.innerWidth - width - EDGE))}px`,
      top: under ? `${box.bottom + GAP}px` : "auto", bottom: under ? "auto" : `${window.innerHeight - box.top + GAP}px`,
    });
    return undefined;
  };
  const moved = (event) => (layer.contains(event.target) ? null : put());
  put();
  const grown = new ResizeObserver(put);
  grown.observe(layer);
  document.addEventListener("scroll", moved, true);
  window.addEventListener("resize", put);
  return () => {
    grown.disconnect();
    document.removeEventListener("scroll", moved, true);
    window.removeEventListener("resize", put);
  };
}
