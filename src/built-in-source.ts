import { failed } from './batch/sources/answers.ts'
import type { Source, SourceSettings } from './batch/sources/port.ts'
import { openSerpSource, serpAbilities } from './batch/sources/serp-family.ts'
import type { Clock } from './platform/clock.ts'
import { serpapiWire } from './sandbox/sources/serpapi-wire.ts'
import { openSourceSandbox } from './sandbox/sources/source-sandbox.ts'

// Nothing in it costs anything, so it is bounded only to keep this process answering.
const settings: SourceSettings = {
  name: 'sandbox',
  credentials: {},
  baseUrl: undefined,
  ratePerSecond: 500,
  budgetPerDay: 1_000_000,
  workspaceBudgetPerDay: 1_000_000,
}

/**
 * The source that sandbox mode brings along: a made-up web that drifts with the service's clock, behind a search service
 * which listens on loopback from the first check on. Everybody sees the same web, so it does not matter which process asks.
 */
export function builtInSource(clock: Clock): Source {
  let opened: ReturnType<typeof open> | undefined
  const open = async () => {
    const service = await openSourceSandbox({
      wire: serpapiWire,
      callsPerSecond: settings.ratePerSecond * 4,
      clock,
    })
    const credentials = { key: 'any' }
    const source = openSerpSource({ ...settings, name: 'serpapi', credentials, baseUrl: service.url })
    return { service, source }
  }
  return {
    settings,
    ranks: {
      ...serpAbilities('serpapi'),
      name: settings.name,
      async readPage(ask, page) {
        opened ??= open()
        const { source } = await opened.catch(() => ({ source: undefined }))
        if (source?.ranks?.readPage) return source.ranks.readPage(ask, page)
        opened = undefined
        return failed('unreachable')
      },
    },
    volumes: undefined,
    broughtAlong: true,
    close: () => {
      opened?.then(async ({ service, source }) => {
        source.close()
        await service.close()
      }, ignore)
    },
  }
}

/** One that never opened has nothing to close. */
function ignore(): void {}
