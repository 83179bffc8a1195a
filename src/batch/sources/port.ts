import { addDays, type Day } from '../../platform/time.ts'

/** Every source that ranks, volumes or trends can come from, as callers name it. */
export const sourceNames = [
  'naver_searchad',
  'naver_search',
  'naver_datalab',
  'dataforseo',
  'dataforseo_queue',
  'serpapi',
  'searchapi',
  'valueserp',
  'serper',
  'hasdata',
  'spaceserp',
  'search_console',
  'sandbox',
] as const
export const sourceKinds = ['ranks', 'volumes', 'trends'] as const
export type SourceKind = (typeof sourceKinds)[number]
/** What each of them tells. */
export const kindsOf: Readonly<Record<SourceName, readonly SourceKind[]>> = {
  naver_searchad: ['volumes'],
  naver_search: ['ranks'],
  naver_datalab: ['trends'],
  dataforseo: ['ranks', 'volumes'],
  dataforseo_queue: ['ranks'],
  serpapi: ['ranks'],
  searchapi: ['ranks'],
  valueserp: ['ranks'],
  serper: ['ranks'],
  hasdata: ['ranks'],
  spaceserp: ['ranks'],
  search_console: ['ranks'],
  sandbox: ['ranks'],
}

export type SourceName = (typeof sourceNames)[number]

/** How a source is reached, and how much of it may be used. */
export type SourceSettings = {
  readonly name: SourceName
  /** What opens it, under the names its adapter knows. */
  readonly credentials: Readonly<Record<string, string>>
  /** Its origin; absent: the source's own. */
  readonly baseUrl: string | undefined
  readonly ratePerSecond: number
  readonly budgetPerDay: number
  /** What each workspace may spend of it; 0: only those who may use all workspaces track with it. */
  readonly workspaceBudgetPerDay: number
}

/** Why there is no answer. What follows from it is told by whose trouble it is. */
export type SourceFailure = {
  readonly kind: 'failed'
  /** A code for people and rows: `timeout`, `wrong_device`. */
  readonly reason: string
  /**
   * `answer`: this one went wrong, and is tried again later. `rate`: we were too quick. `quota`: nothing more today.
   * `credentials`: nothing more until somebody mends the key. `early`: what was asked for is not there yet, and comes.
   */
  readonly of: 'answer' | 'rate' | 'quota' | 'credentials' | 'early'
  /** Whether the call may have cost something. */
  readonly paid: boolean
}

export type RankAsk = {
  readonly keyword: string
  readonly engine: string
  readonly device: string
  readonly location: string
  readonly language: string | null
  readonly depth: number
}

/** What a source is asked that knows sites by itself: how they stood on a day. */
export type MeanAsk = RankAsk & {
  readonly site: string
  readonly match: string
  readonly day: Day
}

/** The mean of all places that people were shown; or that nothing is reported, which is not the same as not ranked. */
export type MeanPlace =
  | { readonly kind: 'mean'; readonly position: number }
  | { readonly kind: 'unreported'; readonly reason: 'not_shown' | 'site_not_shared' }

export type RankPage = {
  readonly kind: 'page'
  /** Organic results in their order. */
  readonly urls: readonly string[]
  /** Where some of them stand at their publishers', by these addresses. */
  readonly originals?: ReadonlyMap<string, string>
  /** Nothing comes after this page. */
  readonly isLast: boolean
}

/**
 * Where ranks come from: pages of results, of which the site is looked for here, or means that the source itself tells.
 * Results come at once, or are ordered and collected later.
 */
export type RankSource = RankAbilities & (PageReader | MeanReader | OrderTaker)

export type PageReader = {
  /** The n-th page, from 0. One call. */
  readPage(ask: RankAsk, page: number): Promise<RankPage | SourceFailure>
  readonly readMean?: never
  readonly queue?: never
}

export type MeanReader = {
  readMean(ask: MeanAsk): Promise<MeanPlace | SourceFailure>
  readonly readPage?: never
  readonly queue?: never
}

type OrderTaker = {
  readonly queue: RankQueue
  readonly readPage?: never
  readonly readMean?: never
}

/** A queue of searches: what is put in costs, what comes out is free. */
export type RankQueue = {
  /** How many searches one call takes; all of one engine. */
  readonly mostPerOrder: number
  /** Puts searches in. One failure for all: none of them was taken. Answers stand in the order of the asks. */
  order(asks: readonly TaggedAsk[]): Promise<readonly OrderAnswer[] | SourceFailure>
  /** What is ready and was not collected yet, ours or not. */
  listReady(engine: string): Promise<ReadyList | SourceFailure>
  /** The results of one; it may be collected again. */
  collect(order: { id: string; engine: string; device: string }): Promise<OrderedResults | SourceFailure>
}

/** A search with a name of ours, by which it is known again when its id never reached us. */
export type TaggedAsk = RankAsk & { readonly tag: string }

export type OrderAnswer =
  | { readonly kind: 'ordered'; readonly id: string }
  /** Nobody can say yet whether it was taken. */
  | { readonly kind: 'unsure'; readonly reason: string }
  | SourceFailure

export type ReadyList = {
  readonly kind: 'ready'
  readonly orders: readonly { readonly id: string; readonly tag: string }[]
  /** Nothing that is ready is missing in it. */
  readonly isWhole: boolean
}

export type OrderedResults =
  /** `readAt`: when the source read them, if it says so. */
  | { readonly kind: 'results'; readonly urls: readonly string[]; readonly readAt: Date | undefined }
  | { readonly kind: 'queued' }
  /** It could not be collected this time; it is still there. */
  | { readonly kind: 'not_collected'; readonly failure: SourceFailure }

export type RankAbilities = {
  readonly name: SourceName
  /** What it can be asked for. */
  readonly engines: readonly string[]
  /** Absent: it knows no devices, and takes any name for one. */
  readonly devices?: readonly string[]
  /** Absent: it takes any name for a place. */
  locations?(engine: string): KnownPlaces
  deepest(engine: string): number
  /** How many paid calls a check takes at most; 0: it costs nothing. */
  callsFor(engine: string, depth: number): number
  /** How a site may be named to it; absent: any way. */
  readonly matches?: readonly string[]
}

/** `known` is only for telling. */
export type KnownPlaces = { readonly known: readonly string[]; has(location: string): boolean }

/** The engine whose places are means, as Google Search Console tells them. */
export const searchConsoleEngine = 'google_search_console'

// Google calls its figures final up to three days after their day has ended in California.
const daysUntilFinal = 4

/** The day whose rank a check reports: its own, but for figures that are final only later. */
export function reportedDay(engine: string, day: Day): Day {
  return engine === searchConsoleEngine ? addDays(day, -daysUntilFinal) : day
}

/** How often a keyword is searched. `max`: the source said no more than "at most this". */
export type ReportedVolume = {
  readonly keyword: string
  readonly kind: 'rolling_30d' | 'month'
  readonly day: string
  readonly volume: number | null
  readonly max: number | null
  readonly pc: number | null
  readonly mobile: number | null
}

export type VolumeAnswer =
  | {
      readonly kind: 'volumes'
      readonly volumes: readonly ReportedVolume[]
      /** Those that it knows to have no figure: asking again would bring none either. */
      readonly without?: readonly string[]
    }
  | SourceFailure

export type VolumeSource = {
  readonly name: SourceName
  /** What its volumes are of. */
  readonly tells: ReportedVolume['kind']
  /** How many keywords one call takes. */
  readonly mostPerCall: number
  /** The keyword as this source takes it, in which two of ours may be one; undefined: it cannot be asked for. */
  spell(keyword: string): string | undefined
  readVolumes(spellings: readonly string[], now: Date): Promise<VolumeAnswer>
}

// Google counts a month by the middle of the next; some days more, for who asks too early waits a month for the next turn.
const daysUntilReported = 20

/** The month whose volumes are asked for on a day: of whole months, when the one before it is reported. */
export function volumeMonthOn(day: Day, tells: ReportedVolume['kind']): Day {
  return `${addDays(day, tells === 'month' ? -daysUntilReported : 0).slice(0, 7)}-01`
}

/** How the searches of one keyword went over a span, against the highest value in it: a course without a size. */
export type Trend = {
  readonly every: 'month'
  readonly from: Day
  readonly to: Day
  /** By the first day of each month. One of which nothing is told is not in it, and is not zero. */
  readonly values: readonly { readonly period: Day; readonly ratio: number }[]
}

export type TrendAnswer = { readonly kind: 'trend'; readonly trend: Trend } | SourceFailure

export type TrendSource = {
  readonly name: SourceName
  /** Of the months before this one. One call for one keyword, so that its values have a scale of their own. */
  readTrend(keyword: string, month: Day): Promise<TrendAnswer>
}

// The last day of a month is counted at the latest by then.
const daysUntilCounted = 2

/** The month whose trends are asked for on a day: a new one is asked about when the one before it is counted. */
export function trendMonthOn(day: Day): Day {
  return `${addDays(day, -daysUntilCounted).slice(0, 7)}-01`
}

/** A source that is set up here. */
export type Source = {
  readonly settings: SourceSettings
  readonly ranks: RankSource | undefined
  readonly volumes: VolumeSource | undefined
  readonly trends?: TrendSource
  /** Nobody set it up; it is there for whoever tracks something with it. */
  readonly broughtAlong?: true
  close(): void
}

export type Sources = ReadonlyMap<SourceName, Source>
