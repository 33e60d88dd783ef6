/** How wide text is in the font that the reader has. Geometry must not ask: it is the same for everybody. */

/** The fonts of the picture. */
export const FONTS = "'Helvetica Neue', Arial, 'Liberation Sans', sans-serif";

let pen: CanvasRenderingContext2D | null = null;

/** Return the width of a text of the picture, rounded up. */
export function inkWidth(text: string, size: number, bold = false): number {
  pen ??= document.createElement("canvas").getContext("2d")!;
  pen.font = `${bold ? 650 : 400} ${size}px ${FONTS}`;
  return Math.ceil(pen.measureText(text).width);
}
