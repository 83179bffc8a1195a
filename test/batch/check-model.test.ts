import { readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { activateModel, retireModel } from '../../src/batch/models/change-model.ts'
import { checkModel as inspectModel } from '../../src/batch/models/check-model.ts'
import { checkModelCommand } from '../../src/cli/check-model.ts'
import { model } from '../../src/cli/model.ts'
import { raiseAlarm } from '../../src/platform/alarm.ts'
import { runCommand } from '../billing/run-command.ts'
import { runCommand as runProcess } from '../processes/service-process.ts'
import { openWorld, type World } from '../world.ts'
import { aimlessWeek, run, store } from './batch-story.ts'

let world: World
let modelId: string
let whole: { artifact: Buffer; judged: Buffer; samples: string; manifest: string; created_at: Date }

beforeAll(async () => {
  world = await openWorld({ now: '2030-01-15T12:00:00Z', worker: true })
})
afterAll(() => world.close())

const commands = { 'check-model': checkModelCommand, model }
/** The command in this process; `npm run check-model` as a script calls it is asked once for each exit code. */
async function command(name: keyof typeof commands, ...args: string[]) {
  const { code, output, error } = await runCommand(commands[name], args, world.environment)
  return { code, output: output + error }
}
const checkModel = (...flags: string[]) => command('check-model', ...flags)
const exitCode = async (...flags: string[]) =>
  (await runProcess(['check-model', ...flags], world.environment)).code
async function verdict(...flags: string[]) {
  const { code, output } = await checkModel('--json', ...flags)
  return { code, ...JSON.parse(output) }
}

test('without an active model it exits 3', async () => {
  const { code, output } = await runProcess(['check-model'], world.environment)
  expect(code).toBe(3)
  expect(output).toContain('No model is active')
  expect(await verdict()).toMatchObject({ code: 3, verdict: 'none_active', exit_code: 3, model_id: null })
})

test.each([['--task', 'predict'], ['--task', 'x'], ['--max-age', 'soon'], ['--nonsense'], ['extra']])(
  '%s %s is misuse and exits 2',
  async (...flags) => {
    expect((await checkModel(...flags)).code).toBe(2)
  },
)

test('misuse ends the process with 2', async () => {
  expect(await exitCode('--nonsense')).toBe(2)
})

describe('with an active model', () => {
  const cached = () => join(world.environment['RANKLEDGER_DATA']!, 'models', `${modelId}.model`)
  const file = () => cached().replace(/\.model$/, '.json')
  const filed = () => JSON.parse(readFileSync(file(), 'utf8'))
  const inspect = () => inspectModel(world.app.batch, 'train_classifier', 8 * 86_400_000)
  const shown = async () => (await world.get(`/api/batch/models/${modelId}`)).body.data

  beforeAll(async () => {
    await store(world, 'ws', aimlessWeek())
    modelId = (await run(world, 'classifier')).model_id
    const [row] = await world.query<typeof whole>(
      'select artifact, judged, samples::text, manifest::text, created_at from batch.model where id = $1',
      [modelId],
    )
    whole = row!
  })
  beforeEach(async () => {
    await world.query(
      `update batch.model set artifact = $2, samples = $3, manifest = $4, status = 'active', created_at = $5, judged = $6 where id = $1`,
      [
        modelId,
        whole.artifact,
        whole.samples,
        whole.manifest,
        // As it was: a worker may write the manifest's file at any moment.
        whole.created_at,
        whole.judged,
      ],
    )
    writeFileSync(cached(), whole.artifact)
    rmSync(file(), { force: true })
  })

  test('that is whole and recent it exits 0', async () => {
    expect(await exitCode()).toBe(0)
    expect(await verdict('--task', 'classifier', '--max-age', '1d')).toMatchObject({
      code: 0,
      verdict: 'good',
      model_id: modelId,
      algorithm: 'prior',
      artifact_sha256: JSON.parse(whole.manifest).artifact.sha256,
    })
  })

  test('says what it knows beside its rivals, and warns that class shares know nothing', async () => {
    const { output } = await checkModel()
    expect(output).toContain('class shares')
    expect(output).toMatch(/Rise against fall: AUC 0\.\d{3}/)
    expect(output).toContain('Warning: It is class shares')
    const { metrics, warnings, live_quality } = await verdict()
    expect(metrics).toEqual(JSON.parse(whole.manifest).metrics)
    expect(warnings).toHaveLength(1)
    expect(live_quality).toBeNull()
  })

  test('warns when its skill decays', async () => {
    await world.query(
      `update batch.model set manifest = jsonb_set(jsonb_set(jsonb_set(manifest, '{algorithm,name}', '"gbdt"'),
         '{metrics,holdout,log_loss}', '0.9'), '{metrics,holdout,auc_rise_fall}', '0.7') where id = $1`,
      [modelId],
    )
    const tell = (day: string, examples: number, loss: number) =>
      world.query('insert into batch.live_quality values ($1, $2, $3, $4, $5, $5)', [
        modelId,
        day,
        examples,
        examples * loss,
        examples * 1.1,
      ])
    await tell('2029-11-01', 5000, 0.9)
    expect(await inspect()).toMatchObject({ verdict: 'good', warnings: [] })
    await tell('2030-01-10', 300, 1.099)
    expect(await verdict()).toMatchObject({
      code: 0,
      warnings: [expect.stringContaining('skill decays: 0.0010 better')],
      live_quality: { examples: 5300, last_28_days: { examples: 300 } },
    })
    await world.query('delete from batch.live_quality')
  })

  test('the manifest also lies as a file beside the cached artifact, and follows every change', async () => {
    await checkModel()
    expect(readFileSync(cached())).toEqual(whole.artifact)
    expect(filed()).toEqual(await shown())
    expect(filed().status).toBe('active')
    await command('model', 'retire', modelId)
    expect(filed()).toEqual(await shown())
    expect(filed().status).toBe('retired')
    // A change from elsewhere is written by every process that runs.
    await activateModel(world.app.batch, modelId)
    const deadline = performance.now() + 300_000
    while (filed().status !== 'active' && performance.now() < deadline) await sleep(100)
    expect(filed()).toEqual(await shown())
  })

  test('a file that tells an earlier state is written anew; one that tells another is corrupt', async () => {
    const now = await shown()
    const earlier = { status: 'candidate', status_history: now.status_history.slice(0, 1) }
    writeFileSync(file(), JSON.stringify({ ...now, ...earlier }))
    expect((await inspect()).verdict).toBe('good')
    expect(filed()).toEqual(now)
    for (const changed of [{ status: 'retired' }, { features: [] }, { version: 9 }]) {
      writeFileSync(file(), JSON.stringify({ ...now, ...changed }))
      expect(await inspect()).toMatchObject({
        verdict: 'corrupt',
        complaint: expect.stringContaining('registry'),
      })
    }
    writeFileSync(file(), 'no JSON')
    expect(await exitCode()).toBe(4)
  })

  test('a file whose instants are told in another zone says the same', async () => {
    await checkModel()
    for (const timeZone of ['America/Santiago', 'Asia/Seoul'])
      expect(
        await inspectModel({ ...world.app.batch, timeZone }, 'train_classifier', 8 * 86_400_000),
      ).toMatchObject({
        verdict: 'good',
      })
    const now = await shown()
    writeFileSync(file(), JSON.stringify({ ...now, created_at: '2030-01-15T12:34:56.000+00:00' }))
    expect(await inspect()).toMatchObject({ verdict: 'corrupt' })
  })

  test('a damaged copy for comparing with candidates is noticed', async () => {
    await world.query(`update batch.model set judged = judged || '\\x00' where id = $1`, [modelId])
    expect(await verdict()).toMatchObject({ code: 4, complaint: expect.stringContaining('candidates') })
  })

  test.each([0, 8, 40, -1])('one flipped bit in the artifact (byte %i) is corrupt: 4', async (at) => {
    const bytes = Buffer.from(whole.artifact)
    bytes[(at + bytes.length) % bytes.length]! ^= 1
    await world.query('update batch.model set artifact = $2 where id = $1', [modelId, bytes])
    expect(await verdict()).toMatchObject({ code: 4, verdict: 'corrupt' })
  })

  test('so is a damaged copy in the cache, until it is removed', async () => {
    writeFileSync(cached(), whole.artifact.subarray(1))
    expect(await verdict()).toMatchObject({ code: 4, complaint: expect.stringContaining('cache') })
    // The service itself does not trust it either, and mends it.
    await run(world, 'predict')
    expect(readFileSync(cached())).toEqual(whole.artifact)
    expect((await checkModel()).code).toBe(0)
  })

  test('and bytes with the right hash that are no model', async () => {
    const nonsense = Buffer.from('no model')
    const { createHash } = await import('node:crypto')
    const sha256 = createHash('sha256').update(nonsense).digest('hex')
    await world.query(
      `update batch.model set artifact = $2, artifact_sha256 = $3,
         manifest = jsonb_set(manifest, '{artifact,sha256}', to_jsonb($3::text)) where id = $1`,
      [modelId, nonsense, sha256],
    )
    writeFileSync(cached(), nonsense)
    expect(await verdict()).toMatchObject({ code: 4, complaint: 'The artifact cannot be read.' })
    await world.query('update batch.model set artifact_sha256 = $2 where id = $1', [
      modelId,
      JSON.parse(whole.manifest).artifact.sha256,
    ])
  })

  test('sample rows that score otherwise than stored are corrupt too', async () => {
    await world.query(
      `update batch.model set samples = jsonb_set(samples, '{probabilities,0,0}', '0.5') where id = $1`,
      [modelId],
    )
    expect(await verdict()).toMatchObject({ code: 4, complaint: expect.stringContaining('sample') })
  })

  test('one trained too long ago exits 5, by the clock of the service', async () => {
    await world.query('update batch.model set created_at = $2 where id = $1', [
      modelId,
      '2030-01-07T11:00:00Z',
    ])
    expect(await exitCode()).toBe(5)
    expect(await verdict()).toMatchObject({ code: 5, verdict: 'too_old', model_id: modelId })
    expect(await verdict('--max-age', '9d')).toMatchObject({ code: 0 })
    expect(await verdict('--max-age', '2w')).toMatchObject({ code: 0 })
  })

  describe('an operator', () => {
    test('retires it, and may activate it again', async () => {
      const alarm = { kind: 'model_not_comparable', subject: modelId, note: 'Look at it.' }
      await raiseAlarm(world.app.batch.db, alarm, world.app.clock())
      expect((await command('model', 'retire', modelId)).code).toBe(0)
      // Nobody is compared with what is out of use.
      expect(await world.query('select kind from platform.alarm')).toEqual([])
      expect((await checkModel()).code).toBe(3)
      expect((await command('model', 'retire', modelId)).code).toBe(1)
      expect((await command('model', 'activate', modelId)).code).toBe(0)
      expect((await checkModel()).code).toBe(0)
      const { status_history } = (await world.get(`/api/batch/models/${modelId}`)).body.data
      const statuses = status_history.map(({ status }: { status: string }) => status)
      expect(statuses.slice(0, 2)).toEqual(['candidate', 'active'])
      expect(statuses.slice(-2)).toEqual(['retired', 'active'])
    })

    test('cannot activate one whose bytes were pruned: the newest five retired and rejected keep theirs', async () => {
      await world.query(`
        insert into batch.run (id, task, trigger, status, queued_at, finished_at, leased_until)
        select 'run_' || n, 'train_classifier', 'manual', 'succeeded', now(), now(), now() from generate_series(1, 14) n`)
      await world.query(
        `insert into batch.model (id, task, version, status, status_history, run_id, manifest, artifact, artifact_sha256, judged,
           judged_sha256, samples, created_at)
         select 'mdl_' || lpad(n::text, 26, '0'), task, 100 + n, case when n % 2 = 0 then 'retired' else 'rejected' end,
           jsonb_build_array(jsonb_build_object('status', case when n % 2 = 0 then 'retired' else 'rejected' end,
             'at', '2030-01-01T00:00:00.0' || lpad(n::text, 2, '0') || 'Z')),
           'run_' || n, manifest, artifact, artifact_sha256, judged, judged_sha256, samples, created_at
         from batch.model, generate_series(1, 14) n where id = $1`,
        [modelId],
      )
      await retireModel(world.app.batch, modelId)
      await activateModel(world.app.batch, modelId)
      const kept = await world.query<{ n: number }>(
        `select version - 100 as n from batch.model where artifact is not null and judged is not null and version > 100 order by 1`,
      )
      // Of seven retired and seven rejected the oldest two each have gone; the active one was retired in between.
      expect(kept.map(({ n }) => n)).toEqual([5, 6, 7, 8, 9, 10, 11, 12, 13, 14].filter((n) => n !== 6))
      expect(
        await world.query(`select id from batch.model where status = 'active' and artifact is not null`),
      ).toEqual([{ id: modelId }])
      const pruned = `mdl_${'2'.padStart(26, '0')}`
      const refused = await command('model', 'activate', pruned)
      expect([refused.code, refused.output]).toEqual([1, expect.stringContaining('no longer kept')])
      expect((await world.get(`/api/batch/models/${pruned}`)).body.data.artifact.stored).toBe(false)
      await world.query(`delete from batch.model where version > 100`)
      await world.query(`delete from batch.run where id ~ '^run_[0-9]{1,2}$'`)
    })

    test('cannot activate a corrupt one', async () => {
      await world.query(`update batch.model set artifact = '\\x00', status = 'retired' where id = $1`, [
        modelId,
      ])
      expect((await command('model', 'activate', modelId)).code).toBe(4)
      expect((await checkModel()).code).toBe(3)
    })

    test('is told how it would have done on a workspace of theirs, beside what anybody could have said', async () => {
      const picture = join(world.environment['RANKLEDGER_DATA']!, 'reliability.svg')
      const { code, output } = await command('model', 'score', '--workspace', 'ws', '--svg', picture)
      expect(code).toBe(0)
      for (const name of ['model', 'class_shares', 'last_move', 'week_slope', 'distance_from_mean'])
        expect(output).toMatch(new RegExp(`^${name} +\\d\\.\\d{4} +\\d\\.\\d{4}$`, 'm'))
      const svg = readFileSync(picture, 'utf8')
      expect([svg.startsWith('<svg '), svg.endsWith('</svg>\n')]).toEqual([true, true])
      const scored = JSON.parse((await command('model', 'score', '--workspace', 'ws', '--json')).output)
      const { holdout } = JSON.parse(whole.manifest).metrics
      // It is all of the history there is, so it is the hold-out on which the gate judged.
      expect(scored.figures.examples).toBe(holdout.examples)
      expect(scored.figures.log_loss).toBeCloseTo(holdout.log_loss, 12)
      expect(scored.log_loss[0].ranked).toBeCloseTo(holdout.ranked.log_loss, 12)
      expect(svg.match(/<circle/g)).toHaveLength(scored.figures.reliability.length)
      const stranger = await command('model', 'score', '--workspace', 'ws_none')
      expect([stranger.code, stranger.output]).toEqual([1, expect.stringContaining('no ranks')])
      expect((await command('model', 'score', '--workspace', 'no workspace')).code).toBe(2)
    })

    test('verifies it: 0 while the data are the same, 6 once they are not', async () => {
      const same = await command('model', 'verify', modelId, '--json')
      expect(same.code).toBe(0)
      expect(same.output).toContain('"outcome": "same"')
      await store(world, 'ws', [{ keyword: 'late', day: '2030-01-09', status: 'ranked', position: 7 }])
      const changed = await command('model', 'verify', modelId)
      expect([changed.code, changed.output]).toEqual([6, expect.stringContaining('instead of')])
    })

    test.each([[], ['eat', 'x'], ['retire'], ['retire', 'a', 'b']])(
      'model %s %s %s is misuse',
      async (...args) => {
        expect((await command('model', ...args.filter((arg) => arg !== undefined))).code).toBe(2)
      },
    )

    test.each(['mdl_00000000000000000000000000', 'x'])('%s is no model', async (id) => {
      for (const verb of ['retire', 'activate', 'verify'])
        expect((await command('model', verb, id)).code).toBe(1)
    })
  })
})
