import type { RouteOptions } from 'fastify'
import { refuse } from '../refusal.ts'
import type { Http } from './http.ts'

const methods = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS'] as const

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
  return {
    mount() {
      for (const [url, taken] of [...known]) {
        const allow = methods.filter((method) => taken.has(method)).join(', ')
        http.route({
          url,
          method: methods.filter((method) => !taken.has(method)),
          config: { access: 'open' },
          schema: { hide: true } as object,
          onRequest: async () => {
            throw refuse('method_not_allowed', { headers: { allow } })
          },
          handler: async () => {},
        })
      }
    },
  }
}
