import type { BodyOf, ENDPOINT, Operation, PathOf, QueryOf, ReplyOf } from '../../wire/endpoint.js';
import type { StagedUpload } from '../attachments/receive-upload.js';
import type { AccountActor, Actor, AgentActor, ServiceContext } from '../context.js';
import type { ReplyText } from '../events/reply-text.js';
import type { Query, Transaction } from '../store/database.js';

type Row<Name extends Operation> = (typeof ENDPOINT)[Name];

/** Who may call an operation. */
export type ActorOf<Name extends Operation> = Row<Name>['actor'] extends 'agent'
  ? AgentActor
  : Row<Name>['actor'] extends 'account'
    ? AccountActor
    : Actor;

/** What an operation is given: its path, query and body, or the file, received and checked. */
export type InputOf<Name extends Operation> =
  Row<Name> extends { body: 'file' } ? StagedUpload : { path: PathOf<Name>; query: QueryOf<Name>; body: BodyOf<Name> };

/** Writes get the transaction in which their answer is recorded too; reads get a view of one moment. */
type StoreOf<Name extends Operation> = Row<Name>['method'] extends 'GET' ? Query : Transaction;

/** The code behind one row of the endpoint table. */
export type Handler<Name extends Operation> = (
  context: ServiceContext,
  actor: ActorOf<Name>,
  input: InputOf<Name>,
  store: StoreOf<Name>,
) => Promise<ReplyOf<Name> | ReplyText>;

/** Any handler, for the one place that has checked what it passes against the row. */
export type AnyHandler = (context: ServiceContext, actor: never, input: never, store: never) => Promise<unknown>;
