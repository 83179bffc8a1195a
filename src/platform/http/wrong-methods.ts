import { METHODS } from 'node:http'
import type { FastifyRequest, RouteOptions } from 'fastify'
import { type Refusal, refuseRequest } from '../refusal.ts'
import type { Http } from './http.ts'

const methods = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS']

/**
 * Answers 405 with `Allow` where a path exists under other methods. Called before the routes are mounted; it fills in
 * the gaps once all of them are known.
 */
export function answerWrongMethods(http: Http, { except }: { except: readonly string[] }): { mount(): void } {
  const known = new Map<string, Set<string>>()
  http.addHook('onRoute', ({ url, method }: RouteOptions) => {
    if (except.some((prefix) => url.startsWith(prefix))) return
    const taken = known.get(url) ?? new Set()
    for (const one of [method].flat()) taken.add(one)
    known.set(url, taken)
  })
  let patterns: Pattern[] = []
  http.addHook('onRequest', (request, _reply, done) => {
    if (!unusual.has(request.method)) return done()
    done(unusualRefusal(request, patterns))
  })
  return {
    mount() {
      patterns = [...known].map(([url, taken]) => ({ allow: allowOf(taken), matches: matcherOf(url) }))
      for (const [url, taken] of [...known]) {
        const allow = allowOf(taken)
        http.route({
          url,
          method: methods.filter((method) => !taken.has(method)),
          config: { access: 'open' },
          schema: { hide: true } as object,
          onRequest: async () => {
            throw refuseRequest('method_not_allowed', { headers: { allow } })
          },
          handler: async () => {},
        })
      }
    },
  }
}

// A route for each of them on every path would take longer to mount than all the others.
const unusual = new Set(METHODS.filter((method) => !methods.includes(method)))

type Pattern = { allow: string; matches: RegExp }

function unusualRefusal(request: FastifyRequest, patterns: readonly Pattern[]): Refusal | undefined {
  const path = decoded(request.url.split('?', 1)[0]!)
  const found = patterns.find(({ matches }) => matches.test(path))
  return found && refuseRequest('method_not_allowed', { headers: { allow: found.allow } })
}

/** A path that cannot be decoded is nobody's, whatever it is asked. */
function decoded(path: string): string {
  try {
    return decodeURI(path)
  } catch {
    return ''
  }
}

function allowOf(taken: ReadonlySet<string>): string {
  return methods.filter((method) => taken.has(method)).join(', ')
}

/** `/api/jobs/:job_id/retry` matches whatever stands in the place of the id, and `*` all that follows. */
function matcherOf(url: string): RegExp {
  const literal = url.replace(/[.+?^${}()|[\]\\]/g, '\\$&')
  return new RegExp(`^${literal.replace(/:\w+/g, '[^/]+').replace('*', '.*')}$`)
}
