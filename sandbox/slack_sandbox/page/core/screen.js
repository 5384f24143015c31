// When to draw: whoever changed what is to be seen calls `draw`. What is drawn then, app.js says once.

let drawing = () => {};

/** Say what `draw` does. */
export function drawWith(drawAll) {
  drawing = drawAll;
}

/** Draw the whole page from what is known. */
export function draw() {
  drawing();
}
