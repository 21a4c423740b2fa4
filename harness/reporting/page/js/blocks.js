// Data embedded in the page: its values, and sessions, as compressed JSON in base64.

import { reveal } from "#widgets/untrusted_text.js";

/** @import { Message, Reference, StoredBlock } from "./values.d.ts" */

/**
 * Return the content of a stream of compressed JSON.
 *
 * @param {ReadableStream<BufferSource>} stream
 */
export async function inflate(stream) {
  return reveal(JSON.parse(await new Response(stream.pipeThrough(new DecompressionStream("deflate"))).text()));
}

/**
 * Return the content of an embedded block.
 *
 * @param {string} name
 */
export async function readBlock(name) {
  const text = document.getElementById(name)?.textContent ?? "";
  const bytes = Uint8Array.from(atob(text.trim()), (sign) => sign.charCodeAt(0));
  return inflate(new Blob([bytes]).stream());
}

/** @type {(row: Message | Reference) => row is Reference} */
const isReference = (row) => row.length === 2;

/**
 * Return an embedded session. Messages that are stored in the blocks of other sessions are read from there.
 *
 * @param {number} block
 * @returns {Promise<StoredBlock<Message>>}
 */
export async function readSession(block) {
  /** @type {StoredBlock<Message | Reference>} */
  const session = await readBlock(`block-${block}`);
  const others = new Set(session.messages.filter(isReference).map(([other]) => other));
  const tables = new Map();
  await Promise.all([...others].map(async (other) => tables.set(other, (await readBlock(`block-${other}`)).messages)));
  return { ...session, messages: session.messages.map((row) => (isReference(row) ? tables.get(row[0])[row[1]] : row)) };
}
