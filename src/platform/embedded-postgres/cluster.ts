import type { SystemAccount } from './account.ts'
import type { Binaries } from './binaries.ts'

/** The database files of one data dir, and all it takes to serve them. */
export type Cluster = {
  readonly dataDir: string
  readonly pgdata: string
  readonly account: SystemAccount
  readonly binaries: Binaries
  readonly password: string
}
