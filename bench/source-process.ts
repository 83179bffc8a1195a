import { openSourceSandbox } from '../src/sandbox/sources/source-sandbox.ts'
import { sourceWires } from '../src/sandbox/sources/source-wires.ts'

/** A source of ranks alone in its process. */
const [name] = process.argv.slice(2)
const { url } = await openSourceSandbox({
  wire: sourceWires.find((one) => one.name === name)!,
  callsPerSecond: 100_000,
})
process.send!({ port: Number(new URL(url).port) })
