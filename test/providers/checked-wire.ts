import type { Http } from '../../src/platform/http/http.ts'
import type { ProviderContext } from '../../src/sandbox/provider-context.ts'
import type { Wire } from '../../src/sandbox/wire.ts'
import { type Description, faultsIn, readDescription, typeOfAnswer } from './described.ts'

/** A simulator whose every answer and notification is held against what its provider publishes. */
export type CheckedWire = {
  readonly wire: Wire
  /** In what it spoke otherwise, so far. */
  readonly faults: ReadonlySet<string>
  /** Calls that are described and that nobody has had a good answer to yet. */
  unanswered(): string[]
}

export function checkedWire(wire: Wire): CheckedWire {
  const faults = new Set<string>()
  const answered = new Set<string>()
  // The sandbox's own words are published nowhere else.
  if (wire.name === 'sandbox') return { wire, faults, unanswered: () => [] }
  const description = readDescription(wire.name)
  return {
    faults,
    unanswered: () => Object.keys(description.answers).filter((call) => call !== '*' && !answered.has(call)),
    wire: {
      ...wire,
      routes(http: Http, context, keys) {
        http.addHook('onSend', async (request, reply, answer) => {
          const route = request.routeOptions.url ?? '*'
          if (route.startsWith('/__sandbox') || route.startsWith('/admin')) return answer
          const call = `${request.method} ${route}`
          const told = typeof answer === 'string' ? answer : ''
          if (reply.statusCode === 200) answered.add(call)
          for (const found of await faultsOf(description, context, call, reply.statusCode, told))
            faults.add(`${call} ${reply.statusCode}: ${found}`)
          return answer
        })
        wire.routes(http, context, keys)
      },
      async notification(event, secret, context) {
        const notification = await wire.notification(event, secret, context)
        if (notification)
          for (const found of faultsIn(description, description.notification, JSON.parse(notification.body)))
            faults.add(`the notification of ${event.type}: ${found}`)
        return notification
      },
    },
  }
}

async function faultsOf(
  description: Description,
  context: ProviderContext,
  call: string,
  status: number,
  told: string,
): Promise<string[]> {
  const type = typeOfAnswer(description, call, status)
  if (type === undefined) return ['nobody describes this status']
  if (type === 'nothing') return told === '' ? [] : ['there is an answer']
  try {
    return faultsIn(description, type, JSON.parse(told))
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error
    const { garbage_rate = 0 } = await context.faults.inForce()
    return garbage_rate > 0 ? [] : ['it is no JSON']
  }
}
