import Type from 'typebox'
import { callerIdPattern } from '../id.ts'

const callerId = (title: string, description: string) =>
  Type.String({ title, pattern: callerIdPattern.source, minLength: 1, maxLength: 64, description })

/** Ids that callers choose. */
export const WorkspaceId = callerId(
  'WorkspaceId',
  'The workspace, an id of your own: 1 to 64 of A-Za-z0-9_.:-',
)
export const AccountId = callerId('AccountId', 'The account, an id of your own: 1 to 64 of A-Za-z0-9_.:-')
export const PlanId = callerId('PlanId', 'The plan: 1 to 64 of A-Za-z0-9_.:-')

// Controls, bidi controls and their kin: nobody sees them, and what they do to a page or an invoice is not what it says.
export const unseen =
  '\\u0000-\\u0008\\u000e-\\u001f\\u007f-\\u009f\\u061c\\u200e\\u200f\\u2028-\\u202e\\u2066-\\u2069\\ufff9-\\ufffb'

/** A name of one line, as a person would write it. */
export const lineOf = (maxLength: number) =>
  Type.String({
    title: `Line${maxLength}`,
    minLength: 1,
    maxLength,
    pattern: `^[^\\t-\\r${unseen}]*$`,
    'x-messages': { pattern: 'This value must not hold control characters or marks of writing direction.' },
  })

/** A note of some lines. */
export const noteOf = (maxLength: number) =>
  Type.String({
    title: `Note${maxLength}`,
    maxLength,
    pattern: `^[^\\v\\f${unseen}]*$`,
    'x-messages': { pattern: 'This value must not hold control characters or marks of writing direction.' },
  })
