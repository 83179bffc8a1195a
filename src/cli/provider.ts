import { type CheckedProvider, checkProviders } from '../billing/check-providers.ts'
import { type Command, parseFlags, print, printJson, UsageError, withApp } from './command.ts'

export const provider: Command = {
  summary: 'Check how the payment providers are set up',
  usage: `rankledger provider check [--json]

Asks every provider whose keys are set harmless questions and reports line by line: credentials, clock, listing, webhook
secret. A provider that still holds payment methods in use and has no keys is reported too. For each provider it counts the
live subscriptions that pay through it: keep its keys until that is 0. Exits 0 if all lines are fine. A provider that refused
our credentials before and passes now is charged through again.`,

  async run(args) {
    const { values, positionals } = parseFlags(args, { json: { type: 'boolean', default: false } })
    if (positionals.length !== 1 || positionals[0] !== 'check')
      throw new UsageError('Say what to do with providers: check.')
    return withApp('provider', async (app) => {
      const checked = await checkProviders(app.billing)
      if (values.json) printJson({ ok: checked.every(({ ok }) => ok), providers: checked.map(jsonOf) })
      else for (const one of checked) report(one)
      return checked.every(({ ok }) => ok) ? 0 : 1
    })
  },
}

function jsonOf({ provider, isForNew, lines, ok, liveSubscriptions, resumed }: CheckedProvider) {
  return {
    provider,
    for_new_cards: isForNew,
    ok,
    checks: lines,
    live_subscriptions: liveSubscriptions,
    charging_resumed: resumed,
  }
}

function report({ provider, isForNew, lines, liveSubscriptions, resumed }: CheckedProvider): void {
  print(isForNew ? `${provider} (new payment methods)` : provider)
  for (const { subject, ok, message } of lines)
    print(`  ${(ok ? 'ok' : 'fault').padEnd(7)}${subject.padEnd(16)}${message}`)
  print(`  It holds the payment methods of ${liveSubscriptions} live subscriptions.`)
  if (resumed) print('  Charging through it goes on.')
}
