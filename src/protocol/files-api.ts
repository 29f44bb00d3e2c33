/**
 * Owns the description of the file operations.
 * It must never say of a field what its schema does not say.
 */
import { type Operation, type Parameter, pathParameter, type Resource } from './api.js';
import { contentFormats } from './content-forms.js';
import { fileDeletedSchema, fileListSchema, fileSchema, fileUploadSchema } from './files.js';
import { pageParameters } from './page-query.js';
import { Type } from './schema.js';

const JSON_TYPE = 'application/json';
const answer = (description: string, schema: string): Operation['response'] => ({
  description,
  media: [{ type: JSON_TYPE, schema }],
});
const common = { tag: 'Files', secured: true } as const;

const fileId = pathParameter('id', 'Id of the file.');

const purpose: Parameter = {
  name: 'purpose',
  in: 'query',
  description: 'Only files of this purpose: `file-extract`, `batch` or `batch_output`.',
  schema: Type.String(),
};

const format: Parameter = {
  name: 'format',
  in: 'query',
  description:
    '`text`, as extracted; `markdown`, with tables and items as Markdown has them; `pages`, each page by itself, with the places of its lines.',
  schema: Type.Enum(contentFormats, { default: 'text' }),
};

export const fileResource: Resource = {
  tag: 'Files',
  description: 'Documents whose text is extracted, to be put into messages.',
  schemas: {
    FileUpload: fileUploadSchema,
    File: fileSchema,
    FileList: fileListSchema,
    FileDeleted: fileDeletedSchema,
  },
  operations: [
    {
      ...common,
      method: 'post',
      path: '/v1/files',
      id: 'uploadFile',
      summary: 'Upload a file',
      description: 'Its text is extracted afterwards.',
      request: { type: 'multipart/form-data', schema: 'FileUpload' },
      response: answer('The file.', 'File'),
      errors: ['invalidPurpose', 'fileTooLarge', 'fileEmpty', 'fileCount', 'fileTotal'],
    },
    {
      ...common,
      method: 'get',
      path: '/v1/files',
      id: 'listFiles',
      summary: 'List the files',
      parameters: [...pageParameters('file'), purpose],
      response: answer('A page.', 'FileList'),
      errors: ['otherUser'],
    },
    {
      ...common,
      method: 'get',
      path: '/v1/files/{id}',
      id: 'getFile',
      summary: 'Get a file',
      parameters: [fileId],
      response: answer('The file.', 'File'),
      errors: ['otherUser', 'notFound'],
    },
    {
      ...common,
      method: 'delete',
      path: '/v1/files/{id}',
      id: 'deleteFile',
      summary: 'Delete a file and its text',
      parameters: [fileId],
      response: answer('It is deleted.', 'FileDeleted'),
      errors: ['otherUser', 'notFound', 'fileInUse'],
    },
    {
      ...common,
      method: 'get',
      path: '/v1/files/{id}/content',
      id: 'getFileContent',
      summary: 'Get the text of a file',
      description: 'Waits for the extraction. A file of a batch has its own bytes as content.',
      parameters: [fileId, format],
      response: {
        description:
          'JSON text with `content`, `file_type`, `filename`, `title` and `type`; with `format=pages` it has `pages` and `details` in place of `content`. Each page has `page` and `text`, and where they are known `width` and `height` in its `unit` (`point` or `pixel`), `lines`, `ocr_score` and `skipped`. `lines` has for each line of the text, blank ones too, its `box` (left, top, right, bottom, from the upper left corner) and `ocr_score`, or null.',
        media: [{ type: 'text/plain', schema: null }],
      },
      errors: ['otherUser', 'notFound', 'extractionFailed'],
    },
  ],
};
