import { checkModel, type ModelCheck } from '../batch/models/check-model.ts'
import { type RegisteredModel, renderManifest } from '../batch/models/manifest.ts'
import { taskNamed } from '../batch/runs/run.ts'
import { renderInstant } from '../platform/time.ts'
import { type Command, parseFlags, print, printJson, UsageError, withFoundation } from './command.ts'

const exitCodes = { good: 0, none_active: 3, corrupt: 4, too_old: 5 } as const

export const checkModelCommand: Command = {
  summary: 'Check that one model is active, whole and recent',
  usage: `rankledger check-model [--task train_classifier] [--max-age 8d] [--json]

Exits 0 only if exactly one manifest is active, its artifact has the right hash, loads, and scores its stored sample
rows to the stored values, and its manifest's file says what the registry says. Warns when skill decays. 3: none is active. 4: it is corrupt. 5: it was trained longer ago than --max-age.
--max-age takes a number with s, m, h, d or w.`,

  async run(args) {
    const { values, positionals } = parseFlags(args, {
      task: { type: 'string', default: 'train_classifier' },
      'max-age': { type: 'string', default: '8d' },
      json: { type: 'boolean', default: false },
    })
    if (positionals.length > 0) throw new UsageError('check-model takes no arguments beside its flags.')
    const task = taskNamed(values.task)
    if (task !== 'train_classifier')
      throw new UsageError('--task takes train_classifier, the one task that makes models.')
    const maxAgeMs = readAge(values['max-age'])

    return withFoundation('check-model', async ({ batch }) => {
      const check = await checkModel(batch, task, maxAgeMs)
      if (values.json) printJson({ task, ...render(check, batch.timeZone) })
      else {
        print(sentenceOf(check, values['max-age']))
        if ('ageMs' in check) {
          print(figuresOf(check.model))
          for (const warning of check.warnings) print(`Warning: ${warning}`)
        }
      }
      return exitCodes[check.verdict]
    })
  },
}

const unitMs: Record<string, number> = { s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000, w: 604_800_000 }

function readAge(text: string): number {
  const match = /^(\d{1,6})([smhdw])$/.exec(text)
  if (!match) throw new UsageError('--max-age takes a number with s, m, h, d or w, such as 8d.')
  return Number(match[1]) * unitMs[match[2]!]!
}

function sentenceOf(check: ModelCheck, maxAge: string): string {
  switch (check.verdict) {
    case 'none_active':
      return 'No model is active. Trigger train_classifier, or activate one with `rankledger model activate`.'
    case 'corrupt':
      return `${check.model ? `Model ${check.model.id} is corrupt` : 'The registry is corrupt'}: ${check.complaint}`
    case 'too_old':
      return `Model ${check.model.id} was trained ${ageOf(check.ageMs)} ago, longer than ${maxAge}.`
    case 'good': {
      const { id, version, manifest } = check.model
      return `Model ${id} (version ${version}, ${manifest.algorithm.name}) is active, whole and ${ageOf(check.ageMs)} old.`
    }
  }
}

/** How much it knows: on the hold-out and since, beside what anybody could say without it. */
function figuresOf({ manifest, live }: RegisteredModel): string {
  const { holdout, baseline_prior, baseline_naive } = manifest.metrics
  const loss = (value: number | null) => (value === null ? 'unknown' : value.toFixed(4))
  const lines = [
    ...sampleOf(manifest),
    `Hold-out of ${holdout.examples} rows: log-loss ${loss(holdout.log_loss)}; class shares ${loss(baseline_prior.log_loss)}, ${baseline_naive.rule} ${loss(baseline_naive.log_loss)}.`,
    `Ranked at both ends, ${holdout.ranked.examples} rows: ${loss(holdout.ranked.log_loss)}; class shares ${loss(baseline_prior.ranked.log_loss)}, ${baseline_naive.ranked.rule} ${loss(baseline_naive.ranked.log_loss)}.`,
    `Rise against fall: AUC ${holdout.auc_rise_fall?.toFixed(3) ?? 'unknown'}; calibration error ${holdout.calibration_error.toFixed(3)}.`,
  ]
  if (manifest.metrics.importances) {
    const dearest = manifest.metrics.importances.slice(0, 3)
    lines.push(
      `It goes most by ${dearest.map(({ feature, loss_increase }) => `${feature} (${loss(loss_increase)})`).join(', ')}: so much log-loss more without each.`,
    )
  }
  if (live)
    lines.push(
      `Predictions that came due, ${live.examples} up to ${live.until}: ${loss(live.logLoss)}; class shares ${loss(live.priorLogLoss)}, naive rule ${loss(live.naiveLogLoss)}.`,
    )
  return lines.join('\n')
}

/** What it has learnt from, where that is not all there was. */
function sampleOf({ data }: RegisteredModel['manifest']): string[] {
  if (data.rows_stored === undefined || data.keywords_kept === undefined || data.keywords_kept === 1)
    return []
  return [
    `Learnt from a sample of the keywords, one of ${(1 / data.keywords_kept).toFixed(1)}: ${data.rows} of about ${data.rows_stored} usable ranks, of ${data.keywords} keywords.`,
  ]
}

function ageOf(ms: number): string {
  const days = Math.floor(ms / unitMs['d']!)
  if (days > 0) return days === 1 ? '1 day' : `${days} days`
  const minutes = Math.floor(ms / 60_000)
  return minutes < 60 ? `${minutes} min` : `${Math.floor(minutes / 60)} h`
}

function render(check: ModelCheck, timeZone: string) {
  const model = check.verdict === 'none_active' ? undefined : check.model
  return {
    verdict: check.verdict,
    exit_code: exitCodes[check.verdict],
    complaint: check.verdict === 'corrupt' ? check.complaint : null,
    model_id: model?.id ?? null,
    version: model?.version ?? null,
    algorithm: model?.manifest.algorithm.name ?? null,
    warnings: 'ageMs' in check ? check.warnings : [],
    metrics: model?.manifest.metrics ?? null,
    live_quality: model ? renderManifest(model, (at) => renderInstant(at, timeZone)).live_quality : null,
    artifact_sha256: model?.manifest.artifact.sha256 ?? null,
    created_at: model ? renderInstant(model.createdAt, timeZone) : null,
    activated_at: model?.activatedAt ? renderInstant(model.activatedAt, timeZone) : null,
  }
}
