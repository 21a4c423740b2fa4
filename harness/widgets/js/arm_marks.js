// Marks of arms: the colour and shape that an arm has in every chart.

import { draw } from "./elements.js";

/** @type {Record<string, string>} */
const SHAPES = {
  circle: "M-1,0A1,1 0 1,1 1,0A1,1 0 1,1 -1,0Z",
  square: "M-0.9,-0.9H0.9V0.9H-0.9Z",
  triangle: "M0,-1.05L1.05,0.85H-1.05Z",
  diamond: "M0,-1.25L1.25,0L0,1.25L-1.25,0Z",
  wedge: "M0,1.05L1.05,-0.85H-1.05Z",
  plus: "M-0.4,-1.1H0.4V-0.4H1.1V0.4H0.4V1.1H-0.4V0.4H-1.1V-0.4H-0.4Z",
  cross: "M-1.1,-0.6L-0.6,-1.1L0,-0.5L0.6,-1.1L1.1,-0.6L0.5,0L1.1,0.6L0.6,1.1L0,0.5L-0.6,1.1L-1.1,0.6L-0.5,0Z",
  star: "M0,-1.4L0.33,-0.45L1.33,-0.43L0.53,0.17L0.82,1.13L0,0.56L-0.82,1.13L-0.53,0.17L-1.33,-0.43L-0.33,-0.45Z",
};

/**
 * Return the CSS class that gives an element the colour of an arm, from the text of its mark such as `blue circle`.
 *
 * @param {string} mark
 */
export function classifyMark(mark) {
  return `h-arm-${mark.split(" ")[0]}`;
}

/**
 * Draw the mark of an arm at a place of a drawing.
 *
 * @param {string} mark
 * @param {number} x
 * @param {number} y
 * @param {number} radius
 */
export function drawMark(mark, x, y, radius) {
  const [, shape, half] = mark.split(" ");
  const group = draw("g", { class: `h-arm-mark ${classifyMark(mark)}`, transform: `translate(${x} ${y}) scale(${radius})` });
  group.append(draw("path", { class: half ? "h-arm-outline" : "h-arm-fill", d: SHAPES[shape] }));
  if (half) group.append(draw("path", { class: `h-arm-fill h-arm-${half}`, d: SHAPES[shape] }));
  return group;
}

/**
 * Create the mark of an arm for a line of text.
 *
 * @param {string} mark
 */
export function makeMark(mark) {
  const svg = draw("svg", { class: "h-arm-box", viewBox: "-9 -9 18 18", "aria-hidden": "true" });
  svg.append(drawMark(mark, 0, 0, 6));
  return svg;
}
