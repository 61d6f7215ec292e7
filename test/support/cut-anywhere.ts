/** Returns pieces of bytes: whole, byte by byte, and cut in two anywhere. */
export function cutAnywhere(bytes: Buffer): Buffer[][] {
  const result = [[bytes], Array.from(bytes, (_, i) => bytes.subarray(i, i + 1))];
  for (let i = 1; i < bytes.length; i++) result.push([bytes.subarray(0, i), bytes.subarray(i)]);
  return result;
}
