import { availableParallelism } from 'node:os'
import { defineConfig } from 'vitest/config'
import { quickestFolder } from './test/quickest-folder.ts'
import { SlowestFirst } from './test/slowest-first.ts'

export default defineConfig({
  test: {
    include: ['src/**/*.test.ts', 'test/**/*.test.ts'],
    globalSetup: ['test/postgres.ts', 'test/browser/browser-folder.ts'],
    env: { TMPDIR: quickestFolder() },
    // A machine that lends its cores to others can be thirty times as slow; what hangs for ever is still found.
    testTimeout: 900_000,
    hookTimeout: 900_000,
    // How long a story waits for what must come; a busy machine needs more than the second that is usual.
    expect: { poll: { timeout: 180_000 } },
    pool: 'forks',
    // No module keeps state that another file's tests could see, and loading 1,300 modules anew for each of 200 files
    // would take a tenth of the whole. What a file changes of the process (environment, timers, globals) it puts back.
    isolate: false,
    // Many stories wait for a process, a lease or a disk, so two workers leave two cores half idle.
    maxWorkers: Math.min(6, 2 * availableParallelism()),
    sequence: { sequencer: SlowestFirst },
    // A loop over many seeds belongs to its own command; here every test says what it proves in seconds.
    slowTestThreshold: 5_000,
  },
})
