// Texts from models and tools, which may hide characters or turn their direction.

/** Characters without a shape: controls, and marks that change the direction of a text or have no width. */
const SHAPELESS = /[\p{Cc}\p{Cf}\p{Cn}\p{Co}\p{Cs}\p{Zl}\p{Zp}]/gu;

/**
 * Return a value of the kernel in whose texts these characters, except tabs and line ends, are written as their codes.
 *
 * @param {any} value
 * @returns {any}
 */
export function reveal(value) {
  if (typeof value === "string") return value.replace(SHAPELESS, (sign) => ("\t\n\r".includes(sign) ? sign : formatCode(sign)));
  if (Array.isArray(value)) return value.map(reveal);
  if (value === null || typeof value !== "object" || ArrayBuffer.isView(value)) return value;
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, reveal(item)]));
}

/** @param {string} sign */
function formatCode(sign) {
  return `\\u${(sign.codePointAt(0) ?? 0).toString(16).padStart(4, "0")}`;
}
