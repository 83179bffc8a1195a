import { openDataForSeo } from './dataforseo.ts'
import { openDataForSeoQueue } from './dataforseo-queue.ts'
import { openNaverDatalab } from './naver-datalab.ts'
import { openNaverSearch } from './naver-search.ts'
import { openNaverSearchAd } from './naver-searchad.ts'
import type { Source, SourceName, SourceSettings, Sources } from './port.ts'
import { openSearchConsole } from './search-console.ts'
import { openSerpSource } from './serp-family.ts'

const adapters: Partial<Record<SourceName, (settings: SourceSettings) => Source>> = {
  naver_searchad: openNaverSearchAd,
  naver_search: openNaverSearch,
  naver_datalab: openNaverDatalab,
  dataforseo: openDataForSeo,
  dataforseo_queue: openDataForSeoQueue,
  search_console: openSearchConsole,
}

/** Opens every source that is set up. */
export function openSources(settings: readonly SourceSettings[]): Sources {
  return new Map(settings.map((one) => [one.name, (adapters[one.name] ?? openSerpSource)(one)]))
}
