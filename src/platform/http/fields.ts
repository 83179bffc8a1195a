import Type from 'typebox'
import { callerIdPattern } from '../id.ts'

const callerId = (description: string) =>
  Type.String({ pattern: callerIdPattern.source, minLength: 1, maxLength: 64, description })

/** Ids that callers choose. */
export const WorkspaceId = callerId('The workspace, an id of your own: 1 to 64 of A-Za-z0-9_.:-')
export const AccountId = callerId('The account, an id of your own: 1 to 64 of A-Za-z0-9_.:-')
export const PlanId = callerId('The plan: 1 to 64 of A-Za-z0-9_.:-')
