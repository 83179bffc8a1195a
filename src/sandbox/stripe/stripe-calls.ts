import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Http } from '../../platform/http/http.ts'
import type { Faults } from '../faults.ts'
import type { ProviderContext } from '../provider-context.ts'
import { sendJson } from '../provider-context.ts'
import { type Form, parseForm } from './form.ts'
import { brokenDown, invalid } from './stripe-error.ts'
import { apiVersion } from './stripe-objects.ts'
import { type Done, handleOnce, misnamed } from './stripe-requests.ts'

type Named = { Params: { id: string } }

/** What a call is done under. `now`: service time as it came in, so that it is read once. */
type Call = { readonly faults: Faults; readonly now: Date; readonly isLive: boolean }

export type StripeCalls = ReturnType<typeof openStripeCalls>

/** How every route of Stripe is asked: parameters by name, keys, faults. */
export function openStripeCalls(http: Http, context: ProviderContext) {
  /** A call that changes something. `known`: the parameters it takes. */
  const post = (
    path: string,
    known: readonly string[],
    work: (form: Form, id: string, call: Call) => Promise<Done>,
    mayGoWrong = false,
  ) =>
    http.post<Named>(path, (request, reply) =>
      handleOnce(
        context,
        request,
        reply,
        async (faults, now) => {
          const form = (request.body ?? {}) as Form
          checkNames(form, known, request)
          return work(form, request.params.id, {
            faults,
            now,
            isLive: isLiveKey(request.headers.authorization),
          })
        },
        mayGoWrong,
      ),
    )
  /** A call that only reads. */
  const get = (path: string, read: (query: Form, id: string, request: FastifyRequest) => Promise<object>) =>
    http.get<Named>(path, async (request: FastifyRequest<Named>, reply: FastifyReply) => {
      const subject = request.params.id ?? path
      if (context.faults.lookupFails(await context.faults.inForce(), subject)) throw brokenDown()
      const [, search = ''] = request.url.split('?')
      const answer = await read(parseForm(search), request.params.id, request)
      const echo = context.faults.lookupEcho(await context.faults.inForce(), subject)
      return sendJson(reply, 200, misnamed(JSON.stringify(answer), echo))
    })

  /** A call that takes something away for good. */
  const remove = (path: string, work: (id: string) => Promise<object>) =>
    http.delete<Named>(path, async (request: FastifyRequest<Named>, reply: FastifyReply) =>
      sendJson(reply, 200, JSON.stringify(await work(request.params.id))),
    )

  return { post, get, remove }
}

export function versionOf({ headers }: FastifyRequest): string {
  const version = headers['stripe-version']
  return typeof version === 'string' ? version : apiVersion
}

/** A parameter that this version does not know is refused, as Stripe does. */
function checkNames(form: Form, known: readonly string[], request: FastifyRequest): void {
  const old = versionOf(request) < '2026-09-30' ? ['payment_method_types'] : []
  const odd = Object.keys(form).find((name) => !known.includes(name) && !old.includes(name))
  if (odd !== undefined)
    throw invalid(`Received unknown parameter: ${odd}`, { code: 'parameter_unknown', param: odd })
}

/** Undefined: it is no secret key. */
export function modeOfKey(authorization: string | undefined): string | undefined {
  const [scheme, given = ''] = (authorization ?? '').split(' ')
  const key =
    scheme?.toLowerCase() === 'basic'
      ? Buffer.from(given, 'base64').toString('latin1').replace(/:.*$/, '')
      : given
  return /^(?:sk|rk)_(test|live)_\w+$/.exec(key)?.[1]
}

export function isLiveKey(authorization: string | undefined): boolean {
  return modeOfKey(authorization) === 'live'
}
