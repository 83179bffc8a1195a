import { type ChildProcess, spawn } from 'node:child_process'
import {
  existsSync,
  linkSync,
  mkdtempSync,
  openSync,
  readFileSync,
  rmSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import { setFlagsFromString } from 'node:v8'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { type ImportSource, type ImportTarget, importRecords } from '../../src/batch/import.ts'
import { aggregateVolumes } from '../../src/batch/volumes/aggregate-volumes.ts'
import { importFile } from '../../src/cli/import.ts'
import { openRejects } from '../../src/cli/import-file.ts'
import { runCommand } from '../billing/run-command.ts'
import { openWorld, type World } from '../world.ts'

let world: World
let folder: string
let files = 0
let workspaces = 0

beforeAll(async () => {
  world = await openWorld({ now: '2030-01-15T12:00:00Z' })
  folder = mkdtempSync(join(tmpdir(), 'rankledger-import-'))
})
afterAll(async () => {
  await world.close()
  rmSync(folder, { recursive: true, force: true })
  // The command has set it for the whole process; 0 is V8's own way.
  setFlagsFromString('--heap-growing-percent=0')
})

function writeFile(text: string | Buffer): string {
  const path = join(folder, `file-${++files}.csv`)
  writeFileSync(path, text)
  return path
}

async function newWorkspace(...keywords: string[]): Promise<string> {
  const workspace_id = `ws_import_${++workspaces}`
  if (keywords.length > 0) await world.post('/api/batch/keywords', { workspace_id, keywords })
  return workspace_id
}

const main = fileURLToPath(new URL('../../dist/main.js', import.meta.url))

type Ended = { code: number | null; stdout: string; stderr: string }

/** Runs the built command, as operators do, in a process of its own. */
function start(
  args: string[],
  more: { input?: string; inputFile?: string; preload?: string; env?: Record<string, string> } = {},
) {
  const child: ChildProcess = spawn(
    process.execPath,
    [...(more.preload ? ['--import', more.preload] : []), main, 'import', ...args],
    {
      env: { PATH: process.env['PATH'], ...world.environment, ...more.env },
      stdio: [more.inputFile === undefined ? 'pipe' : openSync(more.inputFile, 'r'), 'pipe', 'pipe'],
    },
  )
  const said = { stdout: '', stderr: '' }
  child.stdout!.on('data', (data) => (said.stdout += data))
  child.stderr!.on('data', (data) => (said.stderr += data))
  child.stdin?.end(more.input ?? '')
  const ended = new Promise<Ended>((resolve) => child.on('close', (code) => resolve({ code, ...said })))
  return { child, ended }
}

async function run(args: string[], more?: Parameters<typeof start>[1]) {
  const { code, stdout, stderr } = await start([...args, '--json'], more).ended
  if (code !== 0) throw new Error(`exit ${code}: ${stderr}`)
  return JSON.parse(stdout)
}

/** What is refused before anything is opened is refused in this process; others see the same of the built command. */
const refused = (args: string[]) => runCommand(importFile, args, world.environment)

/** Ranks of many keywords over many days, day after day as collectors write them. */
function rankFile(
  keywords: number,
  days: number,
  extra: (line: number) => string | undefined = () => undefined,
): string {
  const lines = ['keyword,day,status,position,url,checked_at']
  for (let day = 0; day < days; day++) {
    const name = new Date(Date.UTC(2029, 9, 1 + day)).toISOString().slice(0, 10)
    for (let at = 0; at < keywords; at++) {
      lines.push(
        `bulk ${at},${name},ranked,${((at * 7 + day) % 100) + 1},https://example.com/${at},${name}T09:00:00+09:00`,
      )
      const more = extra(lines.length)
      if (more !== undefined) lines.push(more)
    }
  }
  return `${lines.join('\n')}\n`
}

async function bulkWorkspace(keywords: number): Promise<string> {
  const workspace = await newWorkspace()
  await world.query(
    `insert into batch.keyword (workspace_id, key, display, created_at)
     select $1, 'bulk ' || i, 'bulk ' || i, now() from generate_series(0, $2 - 1) i`,
    [workspace, keywords],
  )
  return workspace
}

async function countRanks(workspace: string): Promise<number> {
  return (
    await world.query('select count(*)::int as n from batch.rank where workspace_id = $1', [workspace])
  )[0]!['n']
}

describe('importing ranks', () => {
  test('reads CSV with quotes, a byte order mark and Windows line ends, and says what became of each line', async () => {
    const workspace = await newWorkspace('나이키', 'air, max', 'boots')
    const path = writeFile(
      '\ufeff' +
        [
          'day,keyword,status,position,searched_depth,url,checked_at',
          '2030-01-14,나이키,ranked,3,50,"https://example.com/?a=1,2",2030-01-14T09:00:00+09:00',
          '2030-01-14,"air, max",not_in_depth,,,,',
          '',
          '2030-01-14,unknown,ranked,3,,,',
          '2030-01-14,boots,ranked,300,,,',
          '2030-01-14,boots,ranked,third,,,',
          '2030-13-14,boots,failed,,,,',
          '2030-01-14,boots,lost,,,,',
          '2030-01-14,boots,failed',
          '2030-01-14,"bo"ots,failed,,,,',
          '2030-01-14,boots,failed,,,,',
        ].join('\r\n'),
    )
    expect(await run(['ranks', path, '--workspace', workspace])).toEqual({
      inserted: 3,
      updated: 0,
      unchanged: 0,
      rejected: 7,
      lines: 12,
      resumed_after_line: 0,
      rejects: `${path}.rejected.csv`,
    })
    expect(readFileSync(`${path}.rejected.csv`, 'utf8').split('\n')).toEqual([
      'line,code,record',
      '5,keyword_not_found,"2030-01-14,unknown,ranked,3,,,"',
      '6,position_out_of_range,"2030-01-14,boots,ranked,300,,,"',
      '7,position_wrong_form,"2030-01-14,boots,ranked,third,,,"',
      '8,day_not_real,"2030-13-14,boots,failed,,,,"',
      '9,status_wrong_form,"2030-01-14,boots,lost,,,,"',
      '10,wrong_number_of_cells,"2030-01-14,boots,failed"',
      '11,broken_quotes,"2030-01-14,""bo""ots,failed,,,,"',
      '',
    ])
    const { ranks } = (
      await world.get(`/api/batch/ranks/${encodeURIComponent('나이키')}?workspace_id=${workspace}`)
    ).body.data
    expect(ranks).toMatchObject([{ position: 3, searched_depth: 50, url: 'https://example.com/?a=1,2' }])
  })

  test('reads JSON lines from standard input', async () => {
    const workspace = await newWorkspace('shoes')
    const rows = [
      { keyword: 'shoes', day: '2030-01-13', status: 'ranked', position: 4 },
      { keyword: 'shoes', day: '2030-01-14', status: 'ranked', position: 5, colour: 'red' },
      { keyword: 'shoes', status: 'ranked', position: 5 },
    ]
    const input = `${rows.map((row) => JSON.stringify(row)).join('\n')}\nnot json`
    const answer = await run(
      ['ranks', '-', '--workspace', workspace, '--rejects', join(folder, 'stdin.csv')],
      { input },
    )
    expect(answer).toMatchObject({ inserted: 1, rejected: 3 })
    expect(readFileSync(join(folder, 'stdin.csv'), 'utf8').match(/^\d+,\w+/gm)).toEqual([
      '2,unknown_field',
      '3,day_missing',
      '4,invalid_json',
    ])
  })

  test('lines in another encoding are rejected, and only they', async () => {
    const workspace = await newWorkspace('나이키')
    const path = writeFile(
      Buffer.concat([
        Buffer.from('keyword,day,status\n나이키,2030-01-13,failed\n'),
        Buffer.from([0xb3, 0xaa, 0xc0, 0xcc]),
        Buffer.from(',2030-01-13,failed\n나이키,2030-01-14,failed\n'),
      ]),
    )
    expect(await run(['ranks', path, '--workspace', workspace])).toMatchObject({
      inserted: 2,
      rejected: 1,
      lines: 4,
    })
    expect(readFileSync(`${path}.rejected.csv`, 'utf8')).toContain('3,not_utf8,')
  })

  test('stores nothing twice: the same file again is unchanged, corrections in a file update', async () => {
    const workspace = await bulkWorkspace(300)
    const path = writeFile(rankFile(300, 3))
    expect(await run(['ranks', path, '--workspace', workspace])).toMatchObject({
      inserted: 900,
      unchanged: 0,
    })
    expect(await run(['ranks', path, '--workspace', workspace])).toMatchObject({
      inserted: 0,
      updated: 0,
      unchanged: 900,
    })
    // New days, a correction, an older check and a repeat in one file.
    const more = writeFile(
      rankFile(300, 4, (line) =>
        line === 2
          ? 'bulk 0,2029-10-01,ranked,77,,2029-10-02T09:00:00Z\nbulk 0,2029-10-01,failed,,,2029-10-03T09:00:00Z'
          : undefined,
      ),
    )
    expect(await run(['ranks', more, '--workspace', workspace])).toMatchObject({
      inserted: 300,
      updated: 1,
      unchanged: 901,
    })
    expect(await countRanks(workspace)).toBe(1200)
    const [row] = await world.query(
      `select r.position from batch.rank r join batch.keyword k on k.workspace_id = r.workspace_id and k.id = r.keyword_id
       where r.workspace_id = $1 and k.key = 'bulk 0' and r.day = '2029-10-01'`,
      [workspace],
    )
    expect(row).toEqual({ position: 77 })
  })

  test('killed at any moment, it goes on where it was, and no row or rejected line comes twice', async () => {
    const keywords = 2000
    const workspace = await bulkWorkspace(keywords)
    const days = 25
    const path = writeFile(
      rankFile(keywords, days, (line) =>
        line % 1000 === 0 ? `nobody ${line},2029-10-01,failed,,,` : undefined,
      ),
    )
    const args = ['ranks', path, '--workspace', workspace]
    let lastBytes = 0n
    for (let kill = 0; kill < 2; kill++) {
      const { child, ended } = start(args)
      await vi.waitFor(
        async () => {
          const [row] = await world.query<{ bytes: bigint }>(
            'select bytes from batch.import_progress where id like $1',
            [`ranks ${workspace} %`],
          )
          expect(row?.bytes ?? 0n).toBeGreaterThan(lastBytes)
          lastBytes = row!.bytes
        },
        { timeout: 180_000, interval: 5 },
      )
      child.kill('SIGKILL')
      expect((await ended).code).toBeNull()
    }
    const stored = await countRanks(workspace)
    expect(stored).toBeGreaterThan(0)
    expect(stored).toBeLessThan(keywords * days)

    const outcome = await run(args)
    expect(outcome.resumed_after_line).toBeGreaterThan(0)
    expect(outcome).toMatchObject({ inserted: keywords * days, updated: 0, unchanged: 0 })
    expect(await countRanks(workspace)).toBe(keywords * days)
    const rejects = readFileSync(`${path}.rejected.csv`, 'utf8').trimEnd().split('\n').slice(1)
    expect(rejects).toHaveLength(outcome.rejected)
    expect(new Set(rejects).size).toBe(outcome.rejected)
    expect(outcome.rejected).toBe(50)
    expect(
      await world.query('select 1 from batch.import_progress where id like $1', [`ranks ${workspace} %`]),
    ).toEqual([])
  })

  test('a file that was changed after it was interrupted is read from its start', async () => {
    const workspace = await bulkWorkspace(2000)
    const path = writeFile(rankFile(2000, 15))
    const args = ['ranks', path, '--workspace', workspace]
    const { child, ended } = start(args)
    await vi.waitFor(
      async () =>
        expect(
          await world.query('select 1 from batch.import_progress where id like $1', [`ranks ${workspace} %`]),
        ).toHaveLength(1),
      { timeout: 180_000, interval: 5 },
    )
    child.kill('SIGKILL')
    await ended
    utimesSync(path, new Date(), new Date(Date.now() + 5000))
    const outcome = await run(args)
    expect(outcome.resumed_after_line).toBe(0)
    expect(outcome.inserted + outcome.unchanged).toBe(30_000)
    expect(await countRanks(workspace)).toBe(30_000)
  })

  // On a machine that lends its cores to others what is done with is collected late; what is kept stays, however often it runs.
  test('keeps a flat memory', { retry: 2 }, async () => {
    const workspace = await bulkWorkspace(5000)
    const path = writeFile(rankFile(5000, 50))
    const peakFile = join(folder, 'peak')
    const preload = `data:text/javascript,${encodeURIComponent(
      'import { writeFileSync } from "node:fs"; process.on("exit", () => writeFileSync(process.env.PEAK_FILE, String(process.resourceUsage().maxRSS)))',
    )}`
    expect(
      await run(['ranks', path, '--workspace', workspace], { preload, env: { PEAK_FILE: peakFile } }),
    ).toMatchObject({
      inserted: 250_000,
    })
    expect(Number(readFileSync(peakFile, 'utf8')) / 1024).toBeLessThan(200)
  })

  test('what stands before a line that cannot be read is stored, however soon that line comes', async () => {
    const source: ImportSource = {
      identity: `broken tail ${++files}`,
      async *read() {
        for (const at of [1, 2]) yield { records: () => [], end: { bytes: at, lines: at } }
        throw new Error('The next line cannot be read.')
      },
    }
    const slow: ImportTarget<null> = {
      name: 'slow',
      prepare: async () => ({ part: null, rejections: [] }),
      async store(client) {
        await client.query('select pg_sleep(0.2)')
        return { inserted: 1, updated: 0, unchanged: 0, rejections: [] }
      },
    }
    const rejects = openRejects(join(folder, 'broken-tail.csv'))
    await expect(
      importRecords(world.app.batch, slow, source, rejects).finally(rejects.close),
    ).rejects.toThrow('The next line cannot be read.')
    expect(
      await world.query('select bytes, inserted from batch.import_progress where id = $1', [
        `slow ${source.identity}`,
      ]),
    ).toEqual([{ bytes: 2n, inserted: 2n }])
  })

  test.each([
    ['a header that does not fit', 'keyword,day,state\n', 1, /"state" is no field, "status" is missing/],
    ['an empty file', '', 1, /empty/],
  ])('%s is told at once', async (_what, text, code, message) => {
    const { code: ended, error } = await refused(['ranks', writeFile(text), '--workspace', 'ws'])
    expect(ended).toBe(code)
    expect(error).toMatch(message)
  })

  test('misuse is told with exit 2, a missing file with exit 1', async () => {
    const misuses = [['ranks'], ['ranks', 'x.csv', 'y.csv', '--workspace', 'ws'], ['colours', 'x.csv']]
    for (const args of misuses) expect((await refused(args)).code).toBe(2)
    expect((await start(['ranks', 'x.csv']).ended).code).toBe(2)
    const missing = await start(['ranks', 'nowhere.csv', '--workspace', 'ws']).ended
    expect([missing.code, missing.stderr]).toEqual([1, expect.stringContaining('nowhere.csv cannot be read')])
  })
})

describe('rejected lines never go into the file that is read', () => {
  const text = 'keyword,day,status,position,url,checked_at\nnobody registered this,2029-10-01,absent,,,\n'

  /** Every other name by which the same file can be reached. */
  function otherNames(path: string): string[] {
    const [link, hard] = [`${path}.link`, `${path}.hard`]
    symlinkSync(path, link)
    linkSync(path, hard)
    return [path, relative(process.cwd(), path), join(folder, '.', basename(path)), link, hard]
  }

  test.each(['ranks', 'volumes'])('%s: by none of its names', async (what) => {
    const path = writeFile(text)
    const workspace = what === 'ranks' ? ['--workspace', await newWorkspace()] : []
    for (const rejects of otherNames(path)) {
      const { code, error } = await refused([what, path, ...workspace, '--rejects', rejects])
      expect({ rejects, code, error }).toMatchObject({
        code: 2,
        error: expect.stringMatching(/^The rejected lines would be written over the file that is read/),
      })
    }
    expect(readFileSync(path, 'utf8')).toBe(text)
  })

  test('nor where none is named, or the file comes by standard input', async () => {
    const path = writeFile(text)
    symlinkSync(path, `${path}.rejected.csv`)
    const workspace = ['--workspace', await newWorkspace()]
    const unnamed = await refused(['ranks', path, ...workspace])
    const piped = await start(['ranks', '-', ...workspace, '--rejects', path], { inputFile: path }).ended
    expect([unnamed.code, piped.code]).toEqual([2, 2])
    expect(readFileSync(path, 'utf8')).toBe(text)
  })

  test('nor an archive', async () => {
    const path = join(folder, 'ranks.parquet')
    writeFileSync(path, text)
    expect((await refused(['ranks', path, '--rejects', path])).code).toBe(2)
    expect((await refused(['volumes', path, '--rejects', path])).code).toBe(2)
    expect(readFileSync(path, 'utf8')).toBe(text)
  })
})

describe('importing volumes', () => {
  test('stores observations that the next aggregation turns into months', async () => {
    const path = writeFile(
      [
        'keyword,source,kind,day,volume,volume_max',
        'import volume,naver,month,2029-11-30,1200,',
        'import volume,naver,month,2029-12-31,,9',
        'import volume,naver,month,2029-12-31,5,9',
        '👟,naver,month,2029-12-31,5,',
        'import volume,naver,week,2029-12-31,5,',
      ].join('\n'),
    )
    expect(await run(['volumes', path])).toMatchObject({ inserted: 2, updated: 0, unchanged: 0, rejected: 3 })
    expect(readFileSync(`${path}.rejected.csv`, 'utf8').match(/^\d+,\w+/gm)).toEqual([
      '4,volume_and_bound',
      '5,keyword_has_emoji',
      '6,kind_wrong_form',
    ])
    await aggregateVolumes(world.app.batch)
    const { months } = (await world.get('/api/batch/volumes/import%20volume')).body.data
    expect(months).toMatchObject([
      { month: '2029-11', volume: 1200 },
      { month: '2029-12', volume: null, volume_max: 9 },
    ])
    expect(await run(['volumes', path])).toMatchObject({ inserted: 0, updated: 0, unchanged: 2, rejected: 3 })
    expect(existsSync(`${path}.rejected.csv`)).toBe(true)
  })
})

describe('files of other tools', () => {
  const header = 'date,rank,url,target,keyword,device,country,datacenter,local,custom'
  const row = (at: number) => `2029-12-01,${(at % 90) + 1},null,ex.com,bulk ${at},M,kr,,,`

  test('are known by their header and imported as everything is; what is rejected is told with its line', async () => {
    const workspace = await bulkWorkspace(3)
    const path = writeFile(
      Buffer.from(
        `\ufeff${header},mood\n${row(0)},x\n2029-12-01,32767,null,ex.com,bulk 1,M,kr,,,,x\n${row(7)},x\n`,
        'utf16le',
      ),
    )
    const told = await run(['ranks', path, '--workspace', workspace])
    expect(told).toMatchObject({
      format: 'serposcope',
      unknown_columns: ['mood'],
      inserted: 2,
      rejected: 1,
      lines: 4,
    })
    expect(readFileSync(told.rejects, 'utf8')).toContain('4,keyword_not_found,')
    expect(
      await world.query(
        `select status, position, searched_depth, engine, device, location from batch.rank
         where workspace_id = $1 order by keyword_id`,
        [workspace],
      ),
    ).toEqual([
      {
        status: 'ranked',
        position: 1,
        searched_depth: 100,
        engine: 'google',
        device: 'mobile',
        location: 'KR',
      },
      {
        status: 'not_in_depth',
        position: null,
        searched_depth: 100,
        engine: 'google',
        device: 'mobile',
        location: 'KR',
      },
    ])
    expect(await run(['ranks', path, '--workspace', workspace])).toMatchObject({ inserted: 0, unchanged: 2 })
  })

  test('go on where they stopped', async () => {
    const workspace = await bulkWorkspace(5000)
    const path = writeFile(`${header}\n${Array.from({ length: 5000 }, (_, at) => row(at)).join('\n')}\n`)
    // Whoever imported it before had come to the first part, and was killed.
    const preload = `data:text/javascript,${encodeURIComponent(`
      let parts = 0
      const { default: pg } = await import('${import.meta.resolve('pg')}')
      const query = pg.Client.prototype.query
      pg.Client.prototype.query = function (...args) {
        if (args[0] === 'commit' && ++parts > 1) process.kill(process.pid, 'SIGKILL')
        return query.apply(this, args)
      }
    `)}`
    expect((await start(['ranks', path, '--workspace', workspace], { preload }).ended).code).toBeNull()
    expect(await countRanks(workspace)).toBe(2000)
    expect(await run(['ranks', path, '--workspace', workspace])).toMatchObject({
      inserted: 5000,
      resumed_after_line: 2001,
    })
    expect(await countRanks(workspace)).toBe(5000)
  })

  test.each([
    [['ranks', '--format', 'excel'], 2, '--format takes one of auto, gsc'],
    [['ranks', '--format', 'gsc'], 1, 'This is no file of Google Search Console'],
    [['ranks', '--day', 'today'], 2, '--day takes a day'],
    [['volumes'], 1, 'use "rankledger import ranks"'],
  ])('%j that do not fit are refused before anything is opened', async ([what, ...flags], code, message) => {
    const args = [what!, writeFile(`${header}\n${row(1)}\n`), ...flags]
    const ended = await refused(what === 'ranks' ? [...args, '--workspace', 'ws'] : args)
    expect(ended.code).toBe(code)
    expect(ended.error).toContain(message)
  })
})
