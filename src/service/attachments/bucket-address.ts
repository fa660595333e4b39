import { OperatorError } from '../core/errors.js';

const URL_FORM = /^s3:\/\/([a-z0-9][a-z0-9.-]{1,61}[a-z0-9])(?:\/([\w./-]*))?(?:\?([^#]*))?$/;
const PARAMETERS = ['region', 'endpoint'];
const REGION = /^[a-z0-9-]{1,40}$/;

/** A bucket of an object store that speaks the S3 protocol. */
export interface BucketAddress {
  /** The URL of the bucket; an object is below it. */
  readonly url: string;
  readonly bucket: string;
  /** Before the name of every object: empty, or it ends with a slash. */
  readonly prefix: string;
  readonly region: string;
  /** For people. */
  readonly shown: string;
}

/** Where a bucket is if its URL does not say. */
export interface BucketDefaults {
  readonly region?: string | undefined;
  readonly endpoint?: string | undefined;
}

/** Reads `s3://bucket/prefix?region=eu-central-1&endpoint=https://s3.example.org`. Throws an `OperatorError`. */
export function readBucketAddress(text: string, defaults: BucketDefaults = {}): BucketAddress {
  const refuse = (why: string): OperatorError => new OperatorError('ATTACHMENTS_NOT_USABLE', why);
  const [, bucket, path = '', query = ''] = URL_FORM.exec(text) ?? [];
  if (bucket === undefined) throw refuse('The bucket of the attachments must look like s3://bucket/prefix.');
  const parameters = new URLSearchParams(query);
  const unknown = [...parameters.keys()].find((name) => !PARAMETERS.includes(name));
  if (unknown !== undefined)
    throw refuse(`The URL of the bucket takes region and endpoint, and not '${unknown}'. Secrets do not belong there.`);
  const region = parameters.get('region') ?? defaults.region ?? 'us-east-1';
  if (!REGION.test(region)) throw refuse(`'${region}' is not the name of a region.`);
  const endpoint = parameters.get('endpoint') ?? defaults.endpoint;
  if (endpoint !== undefined && !isPlainWebUrl(endpoint))
    throw refuse('The endpoint of the bucket must be a plain http or https URL.');
  const folders = path.split('/').filter((name) => name !== '');
  if (folders.some((name) => name === '.' || name === '..')) throw refuse('The prefix must not contain . or .. .');
  return {
    bucket,
    url:
      endpoint === undefined
        ? `https://s3.${region}.amazonaws.com/${bucket}`
        : `${new URL(endpoint).href.replace(/\/$/, '')}/${bucket}`,
    prefix: folders.map((name) => `${name}/`).join(''),
    region,
    shown: `s3://${[bucket, ...folders].join('/')}`,
  };
}

function isPlainWebUrl(text: string): boolean {
  if (!URL.canParse(text)) return false;
  const { protocol, username, password, search, hash } = new URL(text);
  return ['http:', 'https:'].includes(protocol) && `${username}${password}${search}${hash}` === '';
}
