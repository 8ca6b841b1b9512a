import java.nio.charset.StandardCharsets;
import java.security.GeneralSecurityException;
import java.security.MessageDigest;
import java.util.Base64;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;

/** Verifies a delivery of a webhook. Needs Java 11 or later and no library. */
public final class Verify {
    private static final long TOLERANCE = 5 * 60; // seconds

    private Verify() {}

    /** rawBody is the body as it came, before any JSON parser; the others are the headers webhook-id, -timestamp, -signature. */
    public static boolean verify(String secret, String id, String timestamp, String signatures, byte[] rawBody, long now)
            throws GeneralSecurityException {
        if (id.isEmpty() || !timestamp.matches("\\d{1,18}") || Math.abs(now - Long.parseLong(timestamp)) > TOLERANCE) {
            return false;
        }
        byte[] key = Base64.getDecoder().decode(secret.startsWith("whsec_") ? secret.substring(6) : secret);
        Mac mac = Mac.getInstance("HmacSHA256");
        mac.init(new SecretKeySpec(key, "HmacSHA256"));
        mac.update((id + "." + timestamp + ".").getBytes(StandardCharsets.UTF_8));
        byte[] expected = mac.doFinal(rawBody);
        for (String part : signatures.split(" ")) {
            if (!part.startsWith("v1,")) {
                continue;
            }
            try {
                if (MessageDigest.isEqual(Base64.getDecoder().decode(part.substring(3)), expected)) {
                    return true;
                }
            } catch (IllegalArgumentException notBase64) {
                // Another one may be right.
            }
        }
        return false;
    }

    /** On the command line: java Verify.java SECRET ID TIMESTAMP SIGNATURE &lt; body */
    public static void main(String[] args) throws Exception {
        byte[] body = System.in.readAllBytes();
        System.exit(verify(args[0], args[1], args[2], args[3], body, System.currentTimeMillis() / 1000) ? 0 : 1);
    }
}
