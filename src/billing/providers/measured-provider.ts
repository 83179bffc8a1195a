import type { Provider } from './port.ts'

/** Tells how long each call to the provider took and what came of it. */
export function measuredProvider(
  provider: Provider,
  seen: (call: string, outcome: string, seconds: number) => void,
): Provider {
  const measured = Object.entries(provider).map(([call, member]) => {
    if (typeof member !== 'function') return [call, member]
    return [
      call,
      (...args: unknown[]) => {
        const startedAt = performance.now()
        const answer = (member as (...args: unknown[]) => unknown).apply(provider, args)
        // What answers at once, such as checking a signature, asks nobody.
        if (!(answer instanceof Promise)) return answer
        const tell = (outcome: string) => seen(call, outcome, (performance.now() - startedAt) / 1000)
        answer.then(
          (outcome: { kind?: string }) => tell(outcome?.kind ?? 'done'),
          () => tell('failed'),
        )
        return answer
      },
    ]
  })
  return Object.fromEntries(measured) as Provider
}
