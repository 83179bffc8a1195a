import { dataforseoWire } from './dataforseo-wire.ts'
import { naverSearchWire } from './naver-search-wire.ts'
import { naverSearchadWire } from './naver-searchad-wire.ts'
import { searchConsoleWire } from './search-console-wire.ts'
import { serpapiWire } from './serpapi-wire.ts'
import type { SourceWire } from './source-sandbox.ts'

/** Every source of ranks or volumes that can be simulated. */
export const sourceWires: readonly SourceWire[] = [
  serpapiWire,
  dataforseoWire,
  naverSearchWire,
  naverSearchadWire,
  searchConsoleWire,
]
