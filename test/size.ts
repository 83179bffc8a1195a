/** How much a test does of what it could do for ever: little in `npm test`, all of it in `npm run test-long`. */
export function size(short: number, long: number): number {
  return process.env['LONG_TESTS'] === '1' ? long : short
}
