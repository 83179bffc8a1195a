import { readFileSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import wabt from 'wabt'

const folder = fileURLToPath(new URL('../src/batch/learning/', import.meta.url))

/** Builds the kernel of the training: `npm run kernel`. What it writes is checked in, so nobody else needs the tool. */
if (process.argv[1] === fileURLToPath(import.meta.url))
  writeFileSync(`${folder}kernel-bytes.ts`, await buildKernel())

/** The module that holds the kernel's bytes, as it has to be. The same text gives the same bytes. */
export async function buildKernel(): Promise<string> {
  const { parseWat } = await wabt()
  const module = parseWat('kernel.wat', readFileSync(`${folder}kernel.wat`, 'utf8'))
  module.resolveNames()
  module.validate()
  const { buffer } = module.toBinary({})
  module.destroy()
  return `/** kernel.wat as WebAssembly, in base64; written by \`npm run kernel\`. In a module it goes wherever the code goes. */
export const kernelBytes =
  '${Buffer.from(buffer).toString('base64')}'
`
}
