import { SPEC_BEHAVIOR } from './rules/spec-behavior.js';
import { SPEC_SHAPES } from './rules/spec-shapes.js';
import { WIRE } from './rules/wire.js';

/** Every numbered rule and table row of the specification and the contract, by id. */
export const RULES = { ...SPEC_SHAPES, ...SPEC_BEHAVIOR, ...WIRE } as const;

export type RuleId = keyof typeof RULES;
