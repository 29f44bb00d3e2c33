/*
 * Owns the words of a doc or ppt as Apache POI finds them, to compare with: `java -cp … PoiReference.java FILE`.
 * It must never use a part of this project, or print what the document deleted but kept.
 */
import java.io.File;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.List;
import org.apache.poi.hslf.usermodel.HSLFShape;
import org.apache.poi.hslf.usermodel.HSLFSlideShow;
import org.apache.poi.hslf.usermodel.HSLFTextParagraph;
import org.apache.poi.hwpf.HWPFDocument;
import org.apache.poi.hwpf.OldWordFileFormatException;
import org.apache.poi.hwpf.extractor.Word6Extractor;
import org.apache.poi.hwpf.usermodel.CharacterRun;
import org.apache.poi.hwpf.usermodel.Range;
import org.apache.poi.poifs.filesystem.POIFSFileSystem;
import org.apache.poi.sl.extractor.SlideShowExtractor;

public class PoiReference {
  public static void main(String[] args) throws Exception {
    File file = new File(args[0]);
    try (POIFSFileSystem container = new POIFSFileSystem(file, true)) {
      String text = args[0].toLowerCase().endsWith(".ppt") ? slides(container) : document(container);
      new PrintStream(System.out, true, StandardCharsets.UTF_8).print(text);
    }
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
