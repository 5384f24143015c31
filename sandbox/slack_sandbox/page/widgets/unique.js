// Ids that no other drawing on this page has.

let last = 0;

/** A new id that begins with `stem`. */
export const unique = (stem) => `${stem}-${(last += 1)}`;
