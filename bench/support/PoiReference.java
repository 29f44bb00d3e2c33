/*
 * Owns the words of a doc, ppt or xls as Apache POI finds them, to compare with: it reads a path a line, and answers
 * each with a line, the text in Base64, or `-` where it does not read the document.
 * It must never use a part of this project, or print what the document deleted but kept.
 */
import java.io.BufferedReader;
import java.io.File;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import java.util.List;
import org.apache.poi.hslf.usermodel.HSLFShape;
import org.apache.poi.hslf.usermodel.HSLFSlideShow;
import org.apache.poi.hslf.usermodel.HSLFTextParagraph;
import org.apache.poi.hssf.usermodel.HSSFWorkbook;
import org.apache.poi.hwpf.HWPFDocument;
import org.apache.poi.hwpf.OldWordFileFormatException;
import org.apache.poi.hwpf.extractor.Word6Extractor;
import org.apache.poi.hwpf.usermodel.CharacterRun;
import org.apache.poi.hwpf.usermodel.Range;
import org.apache.poi.poifs.filesystem.POIFSFileSystem;
import org.apache.poi.sl.extractor.SlideShowExtractor;
import org.apache.poi.ss.usermodel.Cell;
import org.apache.poi.ss.usermodel.CellType;
import org.apache.poi.ss.usermodel.Row;
import org.apache.poi.ss.usermodel.Sheet;

public class PoiReference {
  public static void main(String[] args) throws Exception {
    PrintStream out = System.out;
    // Libraries print warnings of their own.
    System.setOut(System.err);
    BufferedReader paths = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String path = paths.readLine(); path != null; path = paths.readLine()) {
      out.println(answer(path));
      out.flush();
    }
  }

  private static String answer(String path) {
    try (POIFSFileSystem container = new POIFSFileSystem(new File(path), true)) {
      byte[] text = textOf(path.toLowerCase(), container).getBytes(StandardCharsets.UTF_8);
      return Base64.getEncoder().encodeToString(text);
    } catch (Exception | LinkageError | StackOverflowError | OutOfMemoryError unread) {
      return "-";
    }
  }

  private static String textOf(String name, POIFSFileSystem container) throws Exception {
    if (name.endsWith(".ppt")) return slides(container);
    return name.endsWith(".xls") ? sheets(container) : document(container);
  }

  /** Words of cells: how numbers are shown is a matter of formats. */
  private static String sheets(POIFSFileSystem container) throws Exception {
    StringBuilder text = new StringBuilder();
    try (HSSFWorkbook book = new HSSFWorkbook(container)) {
      for (Sheet sheet : book) {
        for (Row row : sheet) {
          for (Cell cell : row) {
            CellType type = cell.getCellType();
            if (type == CellType.FORMULA) type = cell.getCachedFormulaResultType();
            if (type == CellType.STRING) text.append(cell.getStringCellValue()).append('\n');
          }
        }
      }
    }
    return text.toString();
  }

  private static String slides(POIFSFileSystem container) throws Exception {
    SlideShowExtractor<HSLFShape, HSLFTextParagraph> reader =
        new SlideShowExtractor<>(new HSLFSlideShow(container));
    reader.setNotesByDefault(true);
    reader.setCommentsByDefault(true);
    return reader.getText();
  }

  private static String document(POIFSFileSystem container) throws Exception {
    try {
      HWPFDocument document = new HWPFDocument(container);
      StringBuilder text = new StringBuilder();
      for (Range story :
          List.of(
              document.getRange(),
              document.getFootnoteRange(),
              document.getEndnoteRange(),
              document.getCommentsRange(),
              document.getMainTextboxRange())) {
        for (int at = 0; at < story.numCharacterRuns(); at++) {
          CharacterRun run = story.getCharacterRun(at);
          if (!run.isMarkedDeleted()) text.append(run.text());
        }
        text.append('\n');
      }
      return withoutFields(text.toString().replace("\37", "").replace("\36", "-"));
    } catch (OldWordFileFormatException older) {
      return withoutFields(new Word6Extractor(container).getText());
    }
  }

  /** A field shows its result, not its code: the innermost go first. */
  private static String withoutFields(String text) {
    String code = "\\x13[^\\x13-\\x15]*(?:\\x14([^\\x13-\\x15]*))?\\x15";
    for (String last = ""; !last.equals(text); ) {
      last = text;
      text = text.replaceAll(code, "$1");
    }
    return text;
  }
}
