import { randomBytes } from 'node:crypto'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { extname, join } from 'node:path'
import { gzipSync } from 'node:zlib'
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Http } from '../platform/http/http.ts'
import { packageFile } from '../platform/package-files.ts'

const builtConsole = packageFile('console/dist')

/** Whether this installation carries the console. */
export function hasConsole(folder = builtConsole): boolean {
  return existsSync(join(folder, 'index.html'))
}

/**
 * The console's files, from memory. Whatever is no file is one of its pages and answers index.html, with a policy that runs
 * our own scripts alone and styles that carry this answer's nonce.
 */
export function consoleRoutes(http: Http, folder = builtConsole): void {
  const open = { config: { access: 'open' as const }, schema: { hide: true } as object }
  const files = hasConsole(folder) ? readFiles(folder) : undefined
  const index = files?.get('index.html')?.bytes.toString('utf8')

  const answer = async (request: FastifyRequest, reply: FastifyReply) => {
    if (!files || index === undefined) return reply.code(404).type('text/plain; charset=utf-8').send(notBuilt)
    const name = (request.params as { '*'?: string })['*'] ?? ''
    const file = name === 'index.html' ? undefined : files.get(name)
    if (file) return sendFile(request, reply, file, name)
    if (name.startsWith('assets/')) return reply.callNotFound()
    const nonce = randomBytes(16).toString('base64url')
    const page = Buffer.from(index.replaceAll('__NONCE__', nonce))
    return reply
      .headers({ ...pageHeaders, 'content-security-policy': policyWith(nonce) })
      .type('text/html; charset=utf-8')
      .send(page)
  }
  http.get('/console', open, answer)
  http.get('/console/*', open, answer)
}

const notBuilt =
  'The console is not built here. Run `npm ci` and `npm run build` in the repository, or install the packed release, which carries it.\n'

const pageHeaders = {
  'referrer-policy': 'no-referrer',
  'cross-origin-opener-policy': 'same-origin',
  'permissions-policy': 'camera=(), geolocation=(), microphone=(), payment=()',
} as const

function policyWith(nonce: string): string {
  return [
    "default-src 'none'",
    "script-src 'self'",
    `style-src 'self' 'nonce-${nonce}'`,
    "img-src 'self' data:",
    "font-src 'self'",
    "connect-src 'self'",
    "frame-src 'self' blob:",
    "object-src 'none'",
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
  ].join('; ')
}

type File = { readonly bytes: Buffer; readonly packed: Buffer; readonly type: string }

const types: Readonly<Record<string, string>> = {
  '.css': 'text/css; charset=utf-8',
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.json': 'application/json; charset=utf-8',
  '.png': 'image/png',
  '.svg': 'image/svg+xml',
  '.woff2': 'font/woff2',
}

function readFiles(folder: string): Map<string, File> {
  const names = readdirSync(folder, { recursive: true, encoding: 'utf8' })
  return new Map(
    names
      .filter((name) => types[extname(name)] !== undefined)
      .map((name) => {
        const bytes = readFileSync(join(folder, name))
        // Packed once it is asked for: a process that nobody looks at spends nothing on it.
        let packed: Buffer | undefined
        const file: File = {
          bytes,
          type: types[extname(name)]!,
          get packed() {
            packed ??= gzipSync(bytes, { level: 9 })
            return packed
          },
        }
        return [name.replaceAll('\\', '/'), file]
      }),
  )
}

function sendFile(request: FastifyRequest, reply: FastifyReply, file: File, name: string): FastifyReply {
  // A file under assets/ has a hash of its content in its name.
  const kept = name.startsWith('assets/') ? 'public, max-age=31536000, immutable' : 'no-cache'
  const takesGzip = /\bgzip\b/.test(String(request.headers['accept-encoding'] ?? ''))
  reply.headers({ 'cache-control': kept, vary: 'accept-encoding' }).type(file.type)
  if (!takesGzip) return reply.send(file.bytes)
  return reply.header('content-encoding', 'gzip').send(file.packed)
}
