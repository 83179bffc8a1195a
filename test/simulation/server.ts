import { openThrowawayServer } from '../throwaway-server.ts'

/** The server that seeds run on: nobody tidies up behind a run's back. */
export function openServer(): Promise<{ url: string; close(): Promise<void> }> {
  return openThrowawayServer('simulation', {
    wal_level: 'minimal',
    max_wal_senders: '0',
    autovacuum: 'off',
    track_activities: 'off',
    track_counts: 'off',
    jit: 'off',
  })
}
