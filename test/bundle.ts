import { chmodSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { basename, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { build } from 'vite'

const root = fileURLToPath(new URL('..', import.meta.url))

export type Bundle = { readonly file: string; remove(): void }

/**
 * A program of ours as one file that Node runs as it is. Reading it and what it imports as TypeScript costs some seconds of
 * a processor, and a story that starts it ten times would pay for that ten times.
 */
export async function bundle(program: URL): Promise<Bundle> {
  // Within the package, where it finds what npm brought and the files of the package.
  const cache = join(root, 'node_modules/.cache')
  mkdirSync(cache, { recursive: true })
  const folder = mkdtempSync(join(cache, 'bundle-'))
  // Some stories run it as another account.
  chmodSync(folder, 0o755)
  await build({
    root,
    configFile: false,
    publicDir: false,
    logLevel: 'error',
    build: {
      ssr: fileURLToPath(program),
      target: 'node20',
      outDir: folder,
      emptyOutDir: false,
      minify: false,
      sourcemap: true,
      reportCompressedSize: false,
    },
  })
  return {
    file: join(folder, `${basename(program.pathname, '.ts')}.js`),
    remove: () => rmSync(folder, { recursive: true, force: true }),
  }
}
